package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Whoever announces the run is greeted, and anybody may: answers of strangers are megabytes long, and their number has no end.
const (
	maxGreets = 16   // at once, one to a peer
	maxMet    = 1024 // peers that are greeted again, and whose words are kept
)

// serve answers hellos and says hello to everybody found, until ctx ends. While no spec is settled, or nobody has let this peer in, it does so again and again.
func (m *meeting) serve(ctx context.Context) {
	m.net.SetHello(m.answer)
	found := m.net.DiscoverAt(ctx, m.places)
	g := greeter{meeting: m, known: make(map[PeerID]bool), waiting: make(map[PeerID]bool), busy: make(map[PeerID]bool), done: make(chan PeerID, maxGreets)}
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
		case p := <-g.done:
			delete(g.busy, p)
		case <-again.C:
			if m.over() {
				again.Stop() // peers found from now on are greeted once; those that seek ask us
			} else {
				maps.Copy(g.waiting, g.known)
			}
		}
		g.greetWaiting(ctx)
	}
}

// greeter is the loop of serve.
type greeter struct {
	*meeting
	known   map[PeerID]bool // are greeted again
	waiting map[PeerID]bool // for their turn
	busy    map[PeerID]bool // being greeted
	done    chan PeerID
	wg      sync.WaitGroup
}

func (g *greeter) meet(p PeerID) {
	if len(g.known) < maxMet {
		g.known[p] = true
	}
	g.waiting[p] = true
}

func (g *greeter) greetWaiting(ctx context.Context) {
	for p := range g.waiting {
		if len(g.busy) >= maxGreets {
			return
		}
		delete(g.waiting, p)
		if !g.busy[p] {
			g.busy[p] = true
			g.wg.Go(func() { g.greet(ctx, p); g.done <- p }) // there is room
		}
	}
}

// greet says hello to p and takes in what it answers.
func (m *meeting) greet(ctx context.Context, p PeerID) {
	hello, err := m.net.Hello(ctx, p, m.hello())
	if err != nil {
		var refused *p2p.HelloRefused
		if errors.As(err, &refused) {
			m.log.Warn("peer refused the hello", "peer", p, "reason", refused.Reason)
		} else {
			m.log.Debug("hello failed", "peer", p, "err", err)
		}
		return
	}
	m.log.Debug("greeted", "peer", p, "knows_the_spec", len(hello.Spec) > 0, "incarnation", hello.Incarnation, "program", hello.UserAgent)
	m.heard(p, hello)
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
	return p2p.Hello{Run: m.given.Name, Given: m.said, Spec: m.mu.encoded, Incarnation: m.mu.incarnation}
}
