package allreduce

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/internal/wire/wiretest"
)

// dial opens a stream from one peer's name to another's engine, for tests that speak the protocol
// by hand.
func (g *group) dial(from, to int) (*link, wire.Stream) {
	g.t.Helper()
	s, err := memTransport{g.net, peerName(from)}.Open(context.Background(), peerName(to))
	if err != nil {
		g.t.Fatal(err)
	}
	r := &Reduction{engine: g.engines[from]}
	l, _ := r.link(context.Background(), s)
	l.together = 0
	return l, s
}

// opening is what peer from says first to the owner of its first piece.
func (g *group) opening(from, to int) []byte {
	r := newReduction(context.Background(), g.engines[from], g.plan, g.own[from], nil)
	defer r.cancel()
	i := slices.IndexFunc(g.plan.Pieces, func(p slot.Piece) bool { return p.Owner == peerName(to) })
	return newFeed(newPiece(newRotation(r), g.plan.Pieces[i])).opening()
}

// accept runs Accept on bytes that end, and returns its error.
func (g *group) accept(from, to int, b []byte) error {
	a, s := wiretest.Pipe(len(b) + 1)
	_, _ = a.Write(b)
	_ = a.CloseWrite()
	return g.engines[to].Accept(peerName(from), s)
}

// Whatever a peer in the group sends after its hello, it alone is named and nothing hangs.
func TestGarbageInGroup(t *testing.T) {
	frames := func(g *group, change func(h header, b []byte) (header, []byte)) []byte {
		first, _ := g.engines[0].grids[0].FramesOf(g.plan.Pieces[0].Range)
		payload := g.engines[0].grids[0].Frame(g.own[1].data, first)
		h, b := change(header{kindRaw, uint32(first), uint32(len(payload))}, slices.Clone(payload))
		return append(h.Append(g.opening(1, 0)), b...)
	}
	cases := map[string]struct {
		reason Reason
		bytes  func(g *group) []byte
	}{
		"cut in the hashes": {Connection, func(g *group) []byte { b := g.opening(1, 0); return b[:len(b)-5] }},
		"nothing more":      {Connection, func(g *group) []byte { return g.opening(1, 0) }},
		"cut in a frame": {Connection, func(g *group) []byte {
			return frames(g, func(h header, b []byte) (header, []byte) { return h, b[:10] })
		}},
		"unknown kind": {BadBytes, func(g *group) []byte {
			return append(g.opening(1, 0),
				make([]byte, headerSize)...)
		}},
		"a huge length": {BadBytes, func(g *group) []byte {
			return frames(g, func(h header, b []byte) (header, []byte) { h.Length = 1<<32 - 1; return h, b })
		}},
		"another frame": {BadBytes, func(g *group) []byte {
			return frames(g, func(h header, b []byte) (header, []byte) { h.Index++; return h, b })
		}},
		"the wrong direction": {BadBytes, func(g *group) []byte {
			return frames(g, func(h header, b []byte) (header, []byte) { h.Kind = kindReduced; return h, b })
		}},
		"other values": {BadBytes, func(g *group) []byte {
			return frames(g, func(h header, b []byte) (header, []byte) { b[0]++; return h, b })
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, testParams(1000, 100), 2, rand.New(rand.NewPCG(9, 9)))
			g.net.silent = peerName(1)
			g.start(0)
			_ = g.accept(1, 0, c.bytes(g))
			onlyLost(t, "the owner", g.sinks[0], peerName(1), c.reason)
		})
	}
}

// Streams that are not for a running plan are refused, and so is a second one of the same peer.
func TestUnwanted(t *testing.T) {
	g := newGroup(t, testParams(1000, 100), 2, rand.New(rand.NewPCG(9, 9)))
	g.net.silent = peerName(1)
	g.plan.Revision, g.plan.Ballot = 3, 3
	g.start(0)
	good := g.plan
	split := func() {
		whole := g.plan.Pieces[0]
		half := whole
		half.Range.End = 100
		g.plan.Pieces = []slot.Piece{
			half,
			{Range: slot.Range{Begin: 100, End: whole.Range.End}, Owner: whole.Owner},
			g.plan.Pieces[1],
		}
	}
	for name, change := range map[string]func(){
		"an older height":                  func() { g.plan.Height--; g.plan.Opened.Height-- },
		"another group, an older ballot":   func() { g.plan.Ballot--; g.plan.Revision = 9; g.plan.Opened.Ballot++ },
		"another group, an older revision": func() { g.plan.Revision--; g.plan.Opened.Ballot++ },
		"another group of this number":     func() { g.plan.Slot++ },
		"a piece of an older revision":     func() { g.plan.Revision--; split() },
		"a piece that is not in the plan":  split,
	} {
		g.plan = good
		change()
		if err := g.accept(1, 0, g.opening(1, 0)); !errors.Is(err, errUnwanted) {
			t.Errorf("%s: got %v", name, err)
		}
		g.plan = good
	}
	foreign := g.opening(1, 0)
	foreign[4]++ // run
	stranger := g.opening(1, 0)
	if err := g.accept(1, 0, foreign); !errors.Is(err, errUnwanted) {
		t.Errorf("another run: got %v", err)
	}
	if err := g.accept(7, 0, stranger); !errors.Is(err, errUnwanted) {
		t.Errorf("a peer outside the group: got %v", err)
	}
	if err := g.accept(0, 0, stranger); !errors.Is(err, errUnwanted) {
		t.Errorf("this peer itself: got %v", err)
	}
	for _, b := range [][]byte{nil, stranger[:20], make([]byte, helloSize)} {
		if err := g.accept(1, 0, b); err == nil {
			t.Errorf("%d bytes were taken for a hello", len(b))
		}
	}
	if l := g.sinks[0].lost(); len(l) != 0 {
		t.Errorf("somebody was named: %v", l)
	}
}

// A peer has one stream for a piece.
func TestSecondStreamIsUnwanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, testParams(1000, 100), 2, rand.New(rand.NewPCG(9, 9)))
		g.net.silent = peerName(1)
		g.start(0)
		l, s := g.dial(1, 0)
		if err := l.writeAll(g.opening(1, 0)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := g.accept(1, 0, g.opening(1, 0)); !errors.Is(err, errUnwanted) {
			t.Errorf("got %v", err)
		}
		if l := g.sinks[0].lost(); len(l) != 0 {
			t.Errorf("the first stream was given up: %v", l)
		}
		_ = s.Reset()
		g.close()
	})
}

// Streams that come before the plan wait for it, so that the order of arrival does not matter.
func TestStreamsWaitForThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, testParams(1000, 100), 3, rand.New(rand.NewPCG(9, 9)))
		for i := range g.engines {
			time.Sleep(20 * time.Second)
			g.start(i)
		}
		g.wait()
		g.check()
		g.plan.Revision++ // a peer that is ahead waits for the others
		g.plan.Opened = slot.Opening{Ref: g.plan.Ref, Revision: g.plan.Revision}
		for i := range g.engines {
			time.Sleep(20 * time.Second)
			g.start(i)
		}
		g.running = g.running[3:]
		g.wait()
		g.check()
		g.close()
	})
}

// Waiting is bounded, in time and in number.
func TestPendingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, testParams(1000, 100), 2, rand.New(rand.NewPCG(9, 9)), func(c *Config) {
			c.MaxPending, c.MaxPendingPeer, c.PendingWait = 3, 2, time.Second
		})
		errs := make(chan error, 6)
		for i := range 6 {
			from := 1 + i/3
			go func() { errs <- g.accept(from, 0, g.opening(1, 0)) }()
		}
		for range 6 {
			if err := <-errs; !errors.Is(err, errUnwanted) {
				t.Errorf("got %v", err)
			}
		}
		e := g.engines[0]
		if e.mu.waiting != 0 || len(e.mu.pending) != 0 {
			t.Errorf("%d streams still counted", e.mu.waiting)
		}
		silent := make(chan error, 1)
		_, s := wiretest.Pipe(10)
		go func() { silent <- e.Accept(peerName(1), s) }()
		if err := <-silent; err == nil { // the stall limit ends it
			t.Error("a stream that says nothing was taken")
		}
		g.close()
	})
}

func TestClosed(t *testing.T) {
	g := newGroup(t, testParams(1000, 100), 2, rand.New(rand.NewPCG(9, 9)))
	g.startAll()
	g.close()
	if _, err := g.engines[0].Start(t.Context(), g.plan, g.own[0], g.sinks[0]); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Start: got %v", err)
	}
	_, s := wiretest.Pipe(10)
	if err := g.engines[0].Accept(peerName(1), s); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: got %v", err)
	}
}

// Start refuses plans that do not fit.
func TestStartChecksThePlan(t *testing.T) {
	g := newGroup(t, testParams(1000, 100), 2, rand.New(rand.NewPCG(9, 9)))
	start := func(p slot.Plan, c *Contribution) error {
		_, err := g.engines[0].Start(t.Context(), p, c, g.sinks[0])
		return err
	}
	for name, change := range map[string]func(p *slot.Plan){
		"no offers":       func(p *slot.Plan) { p.Offers = nil },
		"too stale":       func(p *slot.Plan) { p.Offers[1].Base = 1 },
		"from the future": func(p *slot.Plan) { p.Offers[1].Base = p.Slot },
		"unsorted":        func(p *slot.Plan) { slices.Reverse(p.Offers) },
		"no pieces":       func(p *slot.Plan) { p.Pieces = nil },
		"a gap":           func(p *slot.Plan) { p.Pieces = p.Pieces[1:] },
		"too short":       func(p *slot.Plan) { p.Pieces = p.Pieces[:1] },
		"off the grid":    func(p *slot.Plan) { p.Pieces[0].Range.End--; p.Pieces[1].Range.Begin-- },
		"beyond the end":  func(p *slot.Plan) { p.Pieces[1].Range.End++ },
		"a strange owner": func(p *slot.Plan) { p.Pieces[1].Owner = "stranger" },
	} {
		p := g.plan
		p.Offers, p.Pieces = slices.Clone(p.Offers), slices.Clone(p.Pieces)
		change(&p)
		if err := start(p, g.own[0]); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if err := start(g.plan, g.own[1]); err == nil {
		t.Error("another contribution than the one offered was taken")
	}
	g.revise(0)
	if err := start(g.plan, g.own[0]); !errors.Is(err, ErrNotInGroup) {
		t.Errorf("got %v", err)
	}
}

func TestConfigValidate(t *testing.T) {
	_, err := New(Config{Params: Params{
		Fragments: []uint64{0}, FrameElements: -1, Aggregator: "best",
		TrimPermille: 500, Discount: []uint32{1001}, Codec: "f33",
	}})
	for _, word := range []string{"Self", "Transport", "f33", "best", "500", "1001", "no elements"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error does not name %s: %v", word, err)
		}
	}
}

// A hello that comes byte by byte, each within the stall limit, ends when a hello at once would: a
// few strangers with such streams kept all places of peers that are not known, for 20 minutes each.
func TestAHelloIsNotDripped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall = 4 * time.Second
		g := newGroup(t, testParams(1000, 100), 2, rand.New(rand.NewPCG(9, 9)), func(c *Config) { c.Stall = stall })
		a, s := wiretest.Pipe(helloSize)
		go func() {
			for _, b := range g.opening(1, 0)[:helloSize] {
				if _, err := a.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(stall)
			}
		}()
		began := time.Now()
		err := g.engines[0].Accept(peerName(1), s)
		if took := time.Since(began); !wire.TimedOut(err) || took > 2*stall {
			t.Errorf("it took %v: %v", took, err)
		}
		time.Sleep(helloSize * stall) // the writer has seen it
		g.close()
	})
}
