package auditor

import (
	"bytes"
	"errors"
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
		answer, err := h.contributor.answer(q, nil)
		if err != nil || len(answer) == 0 {
			return
		}
		if q.Root != h.own.Root() {
			t.Fatal("something is shown of another contribution")
		}
		r := wire.NewReader(answer)
		if o := audit.ReadOpening(r, len(answer)); r.Done() != nil || o.Range != q.Range ||
			len(answer) > audit.MaxOpening(testParams(), 0, true) {
			t.Fatalf("%d bytes are shown of %v where %v was asked for: %v", len(answer), o.Range, q.Range, r.Done())
		}
	})
}
