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
	leader, contributor *Auditor
	offer               slot.Offer
	own                 *allreduce.Contribution
	change              func(wire.Stream) wire.Stream
	unshown             []slot.Offer
}

func newHouse(t testing.TB) *house {
	h := &house{change: func(s wire.Stream) wire.Stream { return s }}
	values := make([]float32, elements)
	for i := range values {
		values[i] = float32(i % 11)
	}
	var err error
	if h.own, err = allreduce.Encode(testParams(), 0, "c", values, nil); err != nil {
		t.Fatal(err)
	}
	h.offer = slot.Offer{Peer: "c", Slot: 3, Seq: 1, Base: 2, Weight: 5, Root: h.own.Root(), NormSq: h.own.NormSq()}
	h.leader, h.contributor = h.auditor(t, "l"), h.auditor(t, "c")
	return h
}

func (h *house) auditor(t testing.TB, self slot.PeerID) *Auditor {
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
		t.Fatal(err)
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

// shows says whether the leader passes on what "c" has offered.
func (h *house) shows(t *testing.T, from slot.PeerID, q Request) bool {
	t.Helper()
	b, err := h.leader.answer(from, q, nil)
	if err != nil {
		t.Fatal(err)
	}
	return len(b) > 0
}

// An auditor that asks a leader for what no honest contributor shows, or for so much that the
// contributor would refuse it, gets nothing, and has nobody left out.
func TestWhatIsAskedForInVainBlamesNobody(t *testing.T) {
	h := newHouse(t)
	for name, change := range map[string]func(q *Request){
		"no blocks":     func(q *Request) { q.Range.Begin = 1 },
		"two frames":    func(q *Request) { q.Range.End++ },
		"another root":  func(q *Request) { q.Root[0] ^= 1 },
		"no such owner": func(q *Request) { q.Contributor = "d" },
	} {
		q := h.request()
		if change(&q); h.shows(t, "e1", q) || len(h.unshown) > 0 {
			t.Errorf("%s: shown, or %v is blamed", name, h.unshown)
		}
	}
	h.leader.Decided(h.request().Slot)
	for range 4 * quotaLeast / frameElements {
		h.shows(t, "e1", h.request())
	}
	if len(h.unshown) > 0 {
		t.Error("it is blamed for what one auditor asks for")
	}
	if !h.shows(t, "e2", h.request()) {
		t.Error("one auditor uses up what the others may ask for")
	}
}

// Members without a seat have nothing passed on, and one that would get a seat some of it. So they
// neither have an honest contributor left out, nor use up what it shows to the leader.
func TestMembersWithoutASeatBlameNobody(t *testing.T) {
	h := newHouse(t)
	for _, from := range []slot.PeerID{"m1", "m2", "n1", "n2", "n3", "n4", "n5"} {
		for range quotaLeast/4/frameElements + 1 {
			if got, in := h.shows(t, from, h.request()), h.leader.cfg.Entrant(from); got && !in {
				t.Fatalf("it is passed on to %s, who has no seat", from)
			}
		}
	}
	if len(h.unshown) > 0 {
		t.Error("members without a seat have a contributor left out")
	}
	if n := h.contributor.served.mu.shown[quotaKey{"l", h.offer.Root}]; n == 0 || n > quotaLeast/2 {
		t.Errorf("they use up %d of %d elements that the contributor shows the leader", n, quotaLeast)
	}
	if !h.shows(t, "e1", h.request()) {
		t.Error("they use up what an elector may ask for")
	}
}

// A contributor that shows a leader other bytes, or nothing, is reported, whoever wants them.
func TestWhatIsPassedOnIsChecked(t *testing.T) {
	for name, change := range map[string]func(b []byte) []byte{
		"other bytes": func(b []byte) []byte { b[40] ^= 1; return b },
		"nothing":     func([]byte) []byte { return []byte{0, 0, 0, 0} },
	} {
		h := newHouse(t)
		h.change = func(s wire.Stream) wire.Stream { return changed{s, change} }
		if h.shows(t, "e1", h.request()) || len(h.unshown) != 1 || h.unshown[0].Root != h.offer.Root {
			t.Errorf("%s: passed on, or unshown are %v", name, h.unshown)
		}
	}
}

// The stream on which a leader got what it passes on is not reset: its connection carries the next
// one. One on which no answer came is.
func TestStreamsOfWhatIsPassedOnEndWell(t *testing.T) {
	h := newHouse(t)
	streams := &counting{Streams: h}
	h.leader.cfg.Streams = streams
	if !h.shows(t, "e1", h.request()) {
		t.Error("it is not passed on: nothing is tested")
	}
	if n := streams.resets.Load(); n > 0 {
		t.Errorf("%d streams were reset", n)
	}
	h.change = func(s wire.Stream) wire.Stream { _ = s.Reset(); return nil }
	if h.shows(t, "e2", h.request()) || streams.resets.Load() != 1 {
		t.Errorf("without an answer %d streams were reset", streams.resets.Load())
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
	for name, c := range map[string]struct {
		all  bool
		most uint64
	}{
		"samples": {false, quotaLeast},
		"all":     {true, quotaAll * elements},
	} {
		h := newHouse(t)
		h.contributor.served.all = c.all
		here, there := wiretest.Pipe(1 << 16)
		ended := make(chan struct{})
		go func() { defer close(ended); h.contributor.Serve("e1", there) }()
		shown, q := uint64(0), h.request()
		for shown+q.Range.Len() <= c.most {
			if b, err := asked(here, q); err != nil || len(b) == 0 {
				t.Fatalf("%s: after %d elements it is shown %d bytes: %v", name, shown, len(b), err)
			}
			shown += q.Range.Len()
		}
		if b, err := asked(here, q); !errors.Is(err, wiretest.ErrReset) {
			t.Fatalf("%s: after %d elements it is shown %d bytes more: %v", name, shown, len(b), err)
		}
		<-ended
		if _, err := h.contributor.answer("e1", q, nil); !errors.Is(err, errQuota) {
			t.Errorf("%s: on another stream: %v", name, err)
		}
		if b, err := h.contributor.answer("e2", q, nil); err != nil || len(b) == 0 {
			t.Errorf("%s: another auditor is shown %d bytes: %v", name, len(b), err)
		}
		h.contributor.Decided(h.request().Slot)
		if b, err := h.contributor.answer("e1", q, nil); err != nil || len(b) == 0 {
			t.Errorf("%s: in the next slot it is shown %d bytes: %v", name, len(b), err)
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
	for n := range quotaLeast / frameElements {
		if b, err := h.contributor.answer("e1", q, nil); err != nil || len(b) == 0 {
			t.Fatalf("request %d is refused: %v", n, err)
		}
	}
	if _, err := h.contributor.answer("e1", q, nil); !errors.Is(err, errQuota) {
		t.Errorf("it is shown a part of each of %d samples", quotaLeast/frameElements+1)
	}
	passed := 0
	for range quotaLeast / frameElements {
		if h.shows(t, "e2", q) {
			passed++
		}
	}
	if most := quotaLeast / frameElements / 4; passed != most || len(h.unshown) > 0 {
		t.Errorf("%d requests are passed on, and not %d; %v are blamed", passed, most, h.unshown)
	}
}

// All members without a seat together are shown what one auditor is: they have nothing to audit,
// but for one that the draft gives a seat, which this peer may not know of.
func TestMembersWithoutASeatShareAQuota(t *testing.T) {
	h := newHouse(t)
	shown := 0
	for i := range 2 * quotaLeast / frameElements {
		b, err := h.contributor.answer(slot.PeerID(fmt.Sprint("m", i%7)), h.request(), nil)
		if err != nil && !errors.Is(err, errQuota) {
			t.Fatal(err)
		}
		if len(b) > 0 {
			shown++
		}
	}
	if shown != quotaLeast/frameElements {
		t.Errorf("seven members are shown %d frames, and not %d", shown, quotaLeast/frameElements)
	}
	if b, err := h.contributor.answer("e1", h.request(), nil); err != nil || len(b) == 0 {
		t.Errorf("an elector is shown %d bytes: %v", len(b), err)
	}
}

// asked asks one question on a stream.
func asked(s wire.Stream, q Request) ([]byte, error) {
	if err := wire.WriteMessage(s, q.Append(nil)); err != nil {
		return nil, err
	}
	return wire.ReadMessage(s, 1<<16)
}

// Names of contributions that a peer makes up take no room from others.
func TestMadeUpRootsTakeNoRoom(t *testing.T) {
	h := newHouse(t)
	q := h.request()
	for i := range quotaKeys + 1 {
		q.Root[0], q.Root[1], q.Root[2] = byte(i), byte(i>>8), byte(i>>16)
		if _, err := h.contributor.answer("a", q, nil); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := h.contributor.answer("b", h.request(), nil); err != nil || len(b) == 0 {
		t.Errorf("an honest auditor is shown %d bytes: %v", len(b), err)
	}
}

// A frame that proves its contributor's lie is passed on: the auditor makes a proof of it.
func TestProofsArePassedOn(t *testing.T) {
	h := newHouse(t)
	h.own.Leaves()[0].NormSq = 1
	h.own.Recommit()
	h.offer.Root, h.offer.NormSq = h.own.Root(), h.own.NormSq()
	b, err := h.leader.answer("e1", h.request(), nil)
	if err != nil || len(h.unshown) > 0 {
		t.Fatal(err, h.unshown)
	}
	o := audit.ReadOpening(wire.NewReader(b), len(b))
	if p, err := audit.ProveContribution(testParams(), h.offer, o); err != nil {
		t.Error(err)
	} else if guilty, err := p.Verify(testParams()); err != nil || len(guilty) != 1 {
		t.Errorf("guilty are %v: %v", guilty, err)
	}
}
