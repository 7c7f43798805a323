package auditor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/internal/wire/wiretest"
)

const elements, frameElements = 5000, 1024

func testParams() allreduce.Params {
	return allreduce.Params{
		Schedule: allreduce.Rotation, Codec: codec.F32, Fragments: []uint64{elements}, FrameElements: frameElements,
		Aggregator: allreduce.TrimmedMean, TrimPermille: 200,
	}
}

// house is a leader, and the contributor "c", whose streams change may spoil.
type house struct {
	t                   testing.TB
	leader, contributor *Auditor
	offer               slot.Offer
	own                 *allreduce.Contribution
	change              func(wire.Stream) wire.Stream
	unshown             []slot.Offer
}

func newHouse(t testing.TB) *house {
	h := &house{t: t, change: func(s wire.Stream) wire.Stream { return s }}
	values := make(allreduce.Vector, elements)
	for i := range values {
		values[i] = float32(i % 11)
	}
	var err error
	if h.own, err = allreduce.Encode(testParams(), 0, "c", values, nil); err != nil {
		t.Fatal(err)
	}
	h.offer = slot.Offer{Peer: "c", Slot: 3, Seq: 1, Base: 2, Weight: 5, Root: h.own.Root(), NormSq: h.own.NormSq()}
	h.leader, h.contributor = h.auditor("l"), h.auditor("c")
	return h
}

func (h *house) auditor(self slot.PeerID) *Auditor {
	a, err := New(Config{
		Self: self, Params: testParams(), Samples: 4, Streams: h, Timeout: time.Second,
		Logger: slog.New(slog.DiscardHandler),
		Own: func(root slot.Root) (*allreduce.Contribution, func()) {
			if self == "c" && root == h.own.Root() {
				return h.own, func() {}
			}
			return nil, func() {}
		},
		Planned: func(p slot.PeerID, root slot.Root) (slot.Offer, bool) {
			return h.offer, p == "c" && root == h.offer.Root
		},
		Member: func(slot.PeerID) bool { return true }, Liars: func() int { return 1 },
		Elector:   func(p slot.PeerID) bool { return p == "l" || strings.HasPrefix(string(p), "e") },
		Entrant:   func(p slot.PeerID) bool { return strings.HasPrefix(string(p), "n") },
		Connected: func(slot.PeerID) bool { return true },
		Unshown: func(p slot.PeerID, root slot.Root) {
			h.unshown = append(h.unshown, slot.Offer{Peer: p, Root: root})
		},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// Open opens a stream of the leader to the contributor, which does not serve it if change returns
// nil.
func (h *house) Open(context.Context, slot.PeerID) (wire.Stream, error) {
	here, there := wiretest.Pipe(1 << 16)
	if served := h.change(there); served != nil {
		go h.contributor.Serve("l", served)
	}
	return here, nil
}

// request is for the first sample of the contribution.
func (h *house) request() Request {
	return Request{Contributor: "c", Slot: 3, Root: h.offer.Root, Range: slot.Range{End: frameElements}}
}

// shown is what an auditor shows a peer; nil: nothing.
func (h *house) shown(a *Auditor, from slot.PeerID, q Request) []byte {
	b, err := a.answer(from, q, nil)
	if err != nil && !errors.Is(err, errQuota) {
		h.t.Fatal(err)
	}
	return b
}

// passes says whether the leader passes on what "c" has offered.
func (h *house) passes(from slot.PeerID, q Request) bool { return len(h.shown(h.leader, from, q)) > 0 }

// until is how often a peer may ask the same before it is shown nothing.
func (h *house) until(a *Auditor, from slot.PeerID, q Request) (times int) {
	for len(h.shown(a, from, q)) > 0 {
		times++
	}
	return times
}

// blamed fails unless so many contributions were reported as unshown.
func (h *house) blamed(want int, what string) {
	h.t.Helper()
	if len(h.unshown) != want {
		h.t.Errorf("%s: %v are blamed", what, h.unshown)
	}
}

// An auditor that asks a leader for what no honest contributor shows, or for so much that the
// contributor would refuse it, gets nothing, and has nobody left out. It does not use up what the
// others may ask for.
func TestWhatIsAskedForInVainBlamesNobody(t *testing.T) {
	h := newHouse(t)
	for name, change := range map[string]func(q *Request){
		"no blocks":     func(q *Request) { q.Range.Begin = 1 },
		"two frames":    func(q *Request) { q.Range.End++ },
		"another root":  func(q *Request) { q.Root[0] ^= 1 },
		"no such owner": func(q *Request) { q.Contributor = "d" },
	} {
		q := h.request()
		if change(&q); h.passes("e1", q) {
			t.Errorf("%s: shown", name)
		}
	}
	h.leader.Decided(h.request().Slot)
	h.until(h.leader, "e1", h.request())
	h.blamed(0, "what is asked for in vain, or too often")
	if !h.passes("e2", h.request()) {
		t.Error("one auditor uses up what the others may ask for")
	}
}

// Members without a seat have nothing passed on, and one that would get a seat some of it. So they
// neither have an honest contributor left out, nor use up what it shows to the leader.
func TestMembersWithoutASeatBlameNobody(t *testing.T) {
	h := newHouse(t)
	for _, from := range []slot.PeerID{"m1", "m2", "n1", "n2", "n3", "n4", "n5"} {
		if n := h.until(h.leader, from, h.request()); n > 0 && !h.leader.cfg.Entrant(from) {
			t.Fatalf("it is passed on to %s, who has no seat", from)
		}
	}
	h.blamed(0, "by members without a seat")
	if n := h.contributor.served.mu.shown[quotaKey{"l", h.offer.Root}]; n == 0 || n > quotaLeast/2 {
		t.Errorf("they use up %d of %d elements that the contributor shows the leader", n, quotaLeast)
	}
	if !h.passes("e1", h.request()) {
		t.Error("they use up what an elector may ask for")
	}
}

// A contributor that shows a leader other bytes, or nothing, is reported, whoever wants them.
func TestWhatIsPassedOnIsChecked(t *testing.T) {
	for name, change := range map[string]func(b []byte) []byte{
		"other bytes": flip,
		"nothing":     func([]byte) []byte { return []byte{0, 0, 0, 0} },
	} {
		h := newHouse(t)
		h.change = func(s wire.Stream) wire.Stream { return changed{s, change} }
		if h.blamed(0, name); h.passes("e1", h.request()) {
			t.Errorf("%s are passed on", name)
		}
		h.blamed(1, name)
	}
}

type changed struct {
	wire.Stream
	change func(b []byte) []byte
}

func (c changed) Write(b []byte) (int, error) {
	_, err := c.Stream.Write(c.change(append([]byte(nil), b...)))
	return len(b), err
}

// A contributor shows one auditor no more of a contribution than an honest one may ask for, and
// ends its stream. Others are shown theirs, and in the next slot all begins anew.
func TestAnAuditorThatAsksForTooMuch(t *testing.T) {
	for _, all := range []bool{false, true} {
		most := uint64(quotaLeast)
		if all {
			most = quotaAll * elements
		}
		h := newHouse(t)
		h.contributor.served.all = all
		here, there := wiretest.Pipe(1 << 16)
		ended := make(chan struct{})
		go func() { defer close(ended); h.contributor.Serve("e1", there) }()
		shown, q := uint64(0), h.request()
		for ; shown+q.Range.Len() <= most; shown += q.Range.Len() {
			if b, err := asked(here, q); err != nil || len(b) == 0 {
				t.Fatalf("after %d elements it is shown %d bytes: %v", shown, len(b), err)
			}
		}
		if b, err := asked(here, q); !errors.Is(err, wiretest.ErrReset) {
			t.Fatalf("after %d elements it is shown %d bytes more: %v", shown, len(b), err)
		}
		<-ended
		again, other := h.shown(h.contributor, "e1", q), h.shown(h.contributor, "e2", q)
		h.contributor.Decided(q.Slot)
		if next := h.shown(h.contributor, "e1", q); len(again) > 0 || len(other) == 0 || len(next) == 0 {
			t.Errorf("all %v: again %d bytes, another %d, in the next slot %d", all, len(again), len(other), len(next))
		}
	}
}

// A part of a sample costs its auditor the whole one, so that it cannot have a message and a path
// made for each 1 KiB; an elector that has them passed on pays as much, and none of it makes the
// contributor seem to hide. Samples and frames cost what they have, whatever is cut short.
func TestPartsOfSamplesCostWholeOnes(t *testing.T) {
	h := newHouse(t)
	q := h.request()
	q.Range.End /= 4
	if n := h.until(h.contributor, "e1", q); n != quotaLeast/frameElements {
		t.Errorf("it is shown a part of each of %d samples", n)
	}
	if n := h.until(h.leader, "e2", q); n != quotaLeast/frameElements/4 {
		t.Errorf("%d requests are passed on", n)
	}
	h.blamed(0, "for parts of samples")
}

// All members without a seat together are shown what one auditor is: they have nothing to audit,
// but for one that the draft gives a seat, which this peer may not know of. Names of contributions
// that a peer makes up take no room from others.
func TestMembersWithoutASeatShareAQuota(t *testing.T) {
	h := newHouse(t)
	shown := 0
	for i := range 2 * quotaLeast / frameElements {
		shown += min(1, len(h.shown(h.contributor, slot.PeerID(fmt.Sprint("m", i%7)), h.request())))
	}
	if shown != quotaLeast/frameElements {
		t.Errorf("seven members are shown %d frames, and not %d", shown, quotaLeast/frameElements)
	}
	q := h.request()
	for i := range quotaKeys + 1 {
		q.Root[0], q.Root[1], q.Root[2] = byte(i), byte(i>>8), byte(i>>16)
		h.shown(h.contributor, "a", q)
	}
	if b := h.shown(h.contributor, "e1", h.request()); len(b) == 0 {
		t.Error("an elector is shown nothing")
	}
}

// asked asks one question on a stream.
func asked(s wire.Stream, q Request) ([]byte, error) {
	if err := wire.WriteMessage(s, q.Append(nil)); err != nil {
		return nil, err
	}
	return wire.ReadMessage(s, 1<<16)
}

// A frame that proves its contributor's lie is passed on: the auditor makes a proof of it.
func TestProofsArePassedOn(t *testing.T) {
	h := newHouse(t)
	h.own.Leaves()[0].NormSq = 1
	h.own.Recommit()
	h.offer.Root, h.offer.NormSq = h.own.Root(), h.own.NormSq()
	b := h.shown(h.leader, "e1", h.request())
	h.blamed(0, "what is proven")
	o := audit.ReadOpening(wire.NewReader(b), len(b))
	if p, err := audit.ProveContribution(testParams(), h.offer, o); err != nil {
		t.Error(err)
	} else if guilty, err := p.Verify(testParams()); err != nil || len(guilty) != 1 {
		t.Errorf("guilty are %v: %v", guilty, err)
	}
}
