package auditor

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// FuzzReadRequest reads foreign bytes: what is taken encodes to the same, and the answer shows what
// was asked for of the own contribution, or nothing.
func FuzzReadRequest(f *testing.F) {
	h := newHouse(f)
	q := h.request()
	f.Add(q.Append(nil))
	q.Range = slot.Range{Begin: 4096, End: elements}
	f.Add(q.Append(nil))
	q.Range.Begin++
	f.Add(q.Append(nil))
	q.Range = slot.Range{End: 1 << 63}
	f.Add(q.Append(nil))
	q.Fragment = 1
	f.Add(q.Append(nil))
	q = h.request()
	q.Contributor = "d"
	f.Add(q.Append(nil))
	f.Add(q.Append(nil)[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := ReadRequest(b)
		if err != nil {
			if !errors.Is(err, wire.ErrMalformed) {
				t.Fatalf("error %v does not wrap wire.ErrMalformed", err)
			}
			return
		}
		if !bytes.Equal(q.Append(nil), b) {
			t.Fatal("what was read encodes to other bytes")
		}
		if len(b) > maxRequest {
			t.Fatalf("a request of %d bytes", len(b))
		}
		answer, err := h.contributor.answer("a", q, nil)
		h.contributor.Decided(math.MaxUint64) // each has the whole quota
		if err != nil || len(answer) == 0 {
			return
		}
		if q.Contributor != "c" || q.Root != h.own.Root() {
			t.Fatal("something is shown of another contribution")
		}
		r := wire.NewReader(answer)
		if o := audit.ReadOpening(r, len(answer)); r.Done() != nil || o.Range != q.Range ||
			len(answer) > audit.MaxOpening(testParams(), 0, true) {
			t.Fatalf("%d bytes are shown of %v where %v was asked for: %v", len(answer), o.Range, q.Range, r.Done())
		}
	})
}

// FuzzOpening reads foreign answers to a question: what is taken is about what was asked for,
// encodes to the same, and convicts nobody here, for all are honest.
func FuzzOpening(f *testing.F) {
	h := newHouse(f)
	seg, err := audit.New(testParams(), audit.Statement{
		Owner: "o", Slot: h.offer.Slot, Range: slot.Range{End: elements}, Offers: []slot.Offer{h.offer},
	})
	if err != nil {
		f.Fatal(err)
	}
	asks := []slot.Range{{End: 256}, {End: frameElements}, {Begin: 4096, End: elements}}
	for i, r := range asks {
		o, err := audit.OpenContribution(testParams(), 0, h.own, r)
		if err != nil {
			f.Fatal(err)
		}
		b := o.Append(nil)
		f.Add(uint8(i), b)
		f.Add(uint8(i+1), b) // of another range
		f.Add(uint8(i), b[:len(b)-1])
		b[len(b)/2]++
		f.Add(uint8(i), b)
	}
	f.Add(uint8(0), []byte{})
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		q := ask{seg: &segment{Segment: seg, shown: []map[slot.Range]audit.Opening{{}}}, r: asks[int(which)%len(asks)]}
		o, err := openingOf(b, q)
		if err != nil {
			if o != nil || !errors.Is(err, wire.ErrMalformed) && !errors.Is(err, errOtherRange) {
				t.Fatalf("%v, and an opening: %v", err, o != nil)
			}
			return
		}
		if o == nil {
			if len(b) > 0 {
				t.Fatal("an answer is taken for an empty one")
			}
			return
		}
		if o.Range != q.r || !bytes.Equal(o.Append(nil), b) {
			t.Fatalf("an opening of %v where %v was asked for, or it encodes to other bytes", o.Range, q.r)
		}
		switch lie, err := h.leader.take(q, *o); {
		case lie != nil:
			t.Fatal("foreign bytes convict an honest contributor")
		case err == nil:
			own, _ := audit.OpenContribution(testParams(), 0, h.own, q.r) // it was opened above
			if !bytes.Equal(o.Bytes, own.Bytes) {
				t.Fatal("other bytes than those that were offered are taken")
			}
		}
	})
}
