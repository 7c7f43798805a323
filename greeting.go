package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Whoever announces the run is greeted, and anybody may: answers of strangers are megabytes long, and their number has no end.
// Some take a connection and say nothing: they wait for nobody's sake but their own turn, ever longer.
const (
	maxGreets = 128  // at once, one to a peer
	maxMet    = 1024 // peers that are greeted again, and whose words are kept
	maxMute   = 4096 // that are remembered for saying nothing

	greetFirst = 3 * time.Second  // for a first word, at the first greeting; doubles
	greetMost  = 20 * time.Second // is where that ends
	muteMost   = 5 * time.Minute  // between greetings of one that says nothing, at most
)

// serve answers hellos and says hello to everybody found, until ctx ends. While no spec is settled, or nobody has let this peer in, it does so again and again.
func (m *meeting) serve(ctx context.Context) {
	m.net.SetHello(m.answer)
	found := m.net.DiscoverAt(ctx, m.places)
	g := newGreeter(m)
	defer g.wg.Wait()
	again := time.NewTicker(m.timing.hello)
	defer again.Stop()
	for {
		select {
		case p, open := <-found:
			if !open {
				return
			}
			g.meet(p)
		case r := <-g.done:
			g.greeted(r, time.Now())
		case <-again.C:
			if m.over() {
				again.Stop() // peers found from now on are greeted once; those that seek ask us
			} else {
				g.again(time.Now())
			}
		}
		g.greetWaiting(ctx)
	}
}

// greeter is the loop of serve.
type greeter struct {
	*meeting
	known   map[PeerID]bool    // are greeted again
	waiting map[PeerID]bool    // for their turn
	busy    map[PeerID]bool    // being greeted
	quiet   map[PeerID]silence // said nothing when they were greeted last
	done    chan greeting
	wg      sync.WaitGroup
}

// silence is that of a peer that says nothing.
type silence struct {
	times int
	until time.Time // it is not greeted before, unless it connects anew
}

type greeting struct {
	peer PeerID
	err  error
}

func newGreeter(m *meeting) *greeter {
	return &greeter{
		meeting: m, known: make(map[PeerID]bool), waiting: make(map[PeerID]bool), busy: make(map[PeerID]bool), quiet: make(map[PeerID]silence),
		done: make(chan greeting, maxGreets),
	}
}

// meet takes up a peer that was found. One that says nothing has no place among those that are greeted again where others want it.
func (g *greeter) meet(p PeerID) {
	if len(g.known) >= maxMet {
		for q := range g.quiet {
			if g.known[q] {
				delete(g.known, q)
				break
			}
		}
	}
	if len(g.known) < maxMet {
		g.known[p] = true
	}
	g.waiting[p] = true
}

// again has all known peers wait for their turn, but for mute ones whose time has not come.
func (g *greeter) again(now time.Time) {
	for p := range g.known {
		if !now.Before(g.quiet[p].until) {
			g.waiting[p] = true
		}
	}
}

// greeted notes how a greeting ended.
func (g *greeter) greeted(r greeting, now time.Time) {
	delete(g.busy, r.peer)
	if !errors.Is(r.err, p2p.ErrMute) {
		delete(g.quiet, r.peer)
		return
	}
	if _, old := g.quiet[r.peer]; !old && len(g.quiet) >= maxMute {
		for q := range g.quiet {
			delete(g.quiet, q)
			break
		}
	}
	times := g.quiet[r.peer].times + 1
	g.quiet[r.peer] = silence{times, now.Add(min(muteMost, greetFirst<<min(times, 10)))}
}

func (g *greeter) greetWaiting(ctx context.Context) {
	for len(g.busy) < maxGreets {
		p, ok := g.next()
		if !ok {
			return
		}
		delete(g.waiting, p)
		if !g.busy[p] {
			g.busy[p] = true
			patience := min(greetMost, greetFirst<<min(g.quiet[p].times, 10))
			g.wg.Go(func() { g.done <- greeting{p, g.greet(ctx, p, patience)} }) // there is room
		}
	}
}

// next is whose turn it is: of one that was not found mute, if there is one.
func (g *greeter) next() (next PeerID, ok bool) {
	for p := range g.waiting {
		if next, ok = p, true; g.quiet[p].times == 0 {
			break
		}
	}
	return next, ok
}

// greet says hello to p, which has so long for a first word, and takes in what it answers.
func (m *meeting) greet(ctx context.Context, p PeerID, patience time.Duration) error {
	hello, err := m.net.Greet(ctx, p, m.hello(), patience)
	if err != nil {
		var refused *p2p.HelloRefused
		if errors.As(err, &refused) {
			m.log.Warn("peer refused the hello", "peer", p, "reason", refused.Reason)
		} else {
			m.log.Debug("hello failed", "peer", p, "err", err)
		}
		return err
	}
	m.log.Debug("greeted", "peer", p, "knows_the_spec", len(hello.Spec) > 0, "incarnation", hello.Incarnation, "program", hello.UserAgent)
	m.heard(p, hello)
	return nil
}

// answer is the other side of greet.
func (m *meeting) answer(from PeerID, theirs p2p.Hello) (p2p.Hello, error) {
	if listed := m.cfg.listed(); listed != nil && !listed(from) {
		return p2p.Hello{}, fmt.Errorf("peer %s is not on the list of those that are admitted: have its ID put there", from)
	}
	if theirs.Run != m.given.Name {
		return p2p.Hello{}, fmt.Errorf("this peer takes part in run %q, not %q", m.given.Name, theirs.Run)
	}
	m.heard(from, theirs)
	return m.hello(), nil
}

func (m *meeting) hello() p2p.Hello {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := p2p.Hello{Run: m.given.Name, Given: m.said, Spec: m.mu.encoded, Incarnation: m.mu.incarnation}
	if m.mu.spec != nil && m.mu.untold == nil {
		h.Timing = m.mu.preset
	}
	return h
}
