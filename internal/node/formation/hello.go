package formation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// This peer says hello to every peer that announces the run. Anybody may announce it, and an answer
// may have megabytes, so the exchanges are bounded. An unresponsive peer takes the connection and
// does not answer: the pause before its next exchange grows, so that it does not delay other peers.
const (
	maxExchanges = 128  // hellos at a time, one with each peer
	maxKnown     = 1024 // peers that get hellos again; also the searching peers that are remembered
	maxSilent    = 4096 // unresponsive peers that are remembered

	firstTimeout   = 3 * time.Second  // for the first answer; doubles for an unresponsive peer
	maxTimeout     = 20 * time.Second // the longest that it gets
	maxSilentPause = 5 * time.Minute  // the longest pause before the next hello to one
)

// Serve answers hellos and says hello to every peer that is found, until ctx ends. It repeats its
// hellos while no spec is settled or this peer is not admitted.
func (f *Formation) Serve(ctx context.Context) {
	f.cfg.Network.SetHello(f.answer)
	found, looked := f.cfg.Network.Discover(ctx, f.cfg.Places)
	g := newHellos(f)
	defer g.wg.Wait()
	again, over := time.NewTicker(f.cfg.Hello), false
	defer again.Stop()
	for {
		select {
		case p, open := <-found:
			if !open {
				return
			}
			g.found(p)
		case r := <-g.done:
			g.ended(r, time.Now())
		case <-again.C:
			if !over {
				g.again(time.Now()) // the last ones say which run this peer takes part in
			}
			// then peers that are found get one hello; searching peers send theirs
			over = f.isSettled()
		}
		g.startWaiting(ctx)
		if f.spec() == nil {
			f.looked.Store(looked() && len(found) == 0 && len(g.fresh) == 0)
		}
	}
}

// hellos is the state of the loop in Serve.
type hellos struct {
	*Formation
	known        map[slot.PeerID]bool    // peers that get hellos again
	waiting      map[slot.PeerID]bool    // peers that wait for their turn
	busy         map[slot.PeerID]bool    // peers with an exchange under way
	unresponsive map[slot.PeerID]silence // peers that did not answer the last hello
	fresh        map[slot.PeerID]bool    // known peers whose first exchange has not ended
	done         chan exchangeEnd
	wg           sync.WaitGroup
}

// silence counts the hellos that an unresponsive peer left without an answer.
type silence struct {
	times int
	until time.Time // it gets no hello before, unless discovery finds it again
}

type exchangeEnd struct {
	peer slot.PeerID
	err  error
}

func newHellos(f *Formation) *hellos {
	return &hellos{
		Formation: f, known: make(map[slot.PeerID]bool), waiting: make(map[slot.PeerID]bool),
		busy:         make(map[slot.PeerID]bool),
		unresponsive: make(map[slot.PeerID]silence), fresh: make(map[slot.PeerID]bool),
		done: make(chan exchangeEnd, maxExchanges),
	}
}

// found takes in a peer that discovery found. If there are too many known peers, an unresponsive
// one gives up its place.
func (g *hellos) found(p slot.PeerID) {
	if len(g.known) >= maxKnown {
		for q := range g.unresponsive {
			if g.known[q] {
				delete(g.known, q)
				delete(g.fresh, q)
				break
			}
		}
	}
	if len(g.known) < maxKnown && !g.known[p] {
		g.known[p], g.fresh[p] = true, true
	}
	g.waiting[p] = true
}

// again queues all known peers, except unresponsive ones whose pause has not ended.
func (g *hellos) again(now time.Time) {
	for p := range g.known {
		if !now.Before(g.unresponsive[p].until) {
			g.waiting[p] = true
		}
	}
}

// ended notes how an exchange ended.
func (g *hellos) ended(r exchangeEnd, now time.Time) {
	delete(g.busy, r.peer)
	delete(g.fresh, r.peer)
	if !errors.Is(r.err, p2p.ErrUnresponsive) {
		delete(g.unresponsive, r.peer)
		return
	}
	if _, old := g.unresponsive[r.peer]; !old && len(g.unresponsive) >= maxSilent {
		for q := range g.unresponsive {
			delete(g.unresponsive, q)
			break
		}
	}
	times := g.unresponsive[r.peer].times + 1
	g.unresponsive[r.peer] = silence{times, now.Add(min(maxSilentPause, firstTimeout<<min(times, 10)))}
}

// startWaiting starts exchanges with waiting peers, up to the bound.
func (g *hellos) startWaiting(ctx context.Context) {
	for len(g.busy) < maxExchanges {
		p, ok := g.next()
		if !ok {
			return
		}
		delete(g.waiting, p)
		if !g.busy[p] {
			g.busy[p] = true
			timeout := min(maxTimeout, firstTimeout<<min(g.unresponsive[p].times, 10))
			// done has room for all
			g.wg.Go(func() { g.done <- exchangeEnd{p, g.exchange(ctx, p, timeout)} })
		}
	}
}

// next returns the peer to exchange hellos with next. Unresponsive peers come after all others.
func (g *hellos) next() (next slot.PeerID, ok bool) {
	for p := range g.waiting {
		if next, ok = p, true; g.unresponsive[p].times == 0 {
			break
		}
	}
	return next, ok
}

// exchange says hello to p and takes in the answer, which must begin within the timeout.
func (f *Formation) exchange(ctx context.Context, p slot.PeerID, timeout time.Duration) error {
	hello, err := f.cfg.Network.Greet(ctx, p, f.hello(), timeout)
	if err != nil {
		var refused *p2p.HelloRefused
		if errors.As(err, &refused) {
			f.log.Warn("peer refused the hello", "peer", p, "reason", refused.Reason)
		} else {
			f.log.Debug("hello failed", "peer", p, "err", err)
		}
		return err
	}
	f.log.Debug("exchanged hellos", "peer", p, "knows_the_spec", len(hello.Spec) > 0, "incarnation", hello.Incarnation,
		"program", hello.UserAgent)
	f.receive(p, hello)
	return nil
}

// answer is the other side of exchange.
func (f *Formation) answer(from slot.PeerID, theirs p2p.Hello) (p2p.Hello, error) {
	if theirs.Run != f.given.Name {
		return p2p.Hello{}, fmt.Errorf("this peer takes part in run %q, not %q", f.given.Name, theirs.Run)
	}
	f.receive(from, theirs)
	return f.hello(), nil
}

func (f *Formation) hello() p2p.Hello {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := p2p.Hello{
		Run: f.given.Name, Given: f.fields, Spec: f.mu.encoded, Incarnation: f.mu.incarnation,
	}
	if f.mu.progress != nil {
		h.Slot, h.Members, _, _ = f.mu.progress()
	}
	if f.mu.spec != nil {
		h.Members = max(1, h.Members) // its founder, at least
	}
	if f.mu.spec != nil && f.mu.awaited == nil {
		h.Timing = f.mu.preset
	}
	return h
}
