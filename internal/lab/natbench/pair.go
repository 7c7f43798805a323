package natbench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/nat"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

const (
	poll = 100 * time.Millisecond
	// settle is how long a pair that is connected through a relay may take to find a better way
	// before it is left at that.
	settle = 15 * time.Second
)

// Names of ways beside those that a status gives.
const (
	wayDirect    = "direct"
	wayPunched   = "punched"
	wayConnected = "connected" // the status does not say how
)

// pairs measures each pair of kinds, one after the other, in one world: kind k has hosts 1+2k and
// 2+2k, each behind routers of its own.
func (b *bench) pairs(ctx context.Context) (all []Pair, err error) {
	if len(b.cfg.Kinds) == 0 {
		return nil, nil
	}
	sites := []nat.Site{{Kind: nat.Public}}
	for _, k := range b.cfg.Kinds {
		sites = append(sites, nat.Site{Kind: k}, nat.Site{Kind: k})
	}
	err = b.in(ctx, sites, func() error {
		for i := range b.cfg.Kinds {
			for j := i; j < len(b.cfg.Kinds); j++ {
				p, err := b.pair(ctx, 1+2*i, 2+2*j)
				if err != nil {
					return err
				}
				all = append(all, p)
				b.note("%s", p)
			}
		}
		return nil
	})
	return all, err
}

// pair lets two hosts train together, with a bootstrap node that knows no other peer.
func (b *bench) pair(ctx context.Context, hostA, hostB int) (p Pair, err error) {
	p.A, p.B = b.world.Kind(hostA), b.world.Kind(hostB)
	dir := filepath.Join(b.cfg.Dir, fmt.Sprintf("%s-%s", p.A, p.B))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return p, err
	}
	defer b.stopAll()
	name := swarm.RunName("nat")
	boot, err := b.startDaemon(ctx, 0, filepath.Join(dir, "bootstrap"), name)
	if err != nil {
		return p, err
	}
	began := time.Now()
	run := []string{
		"--run", name, "--start-peers", "2", "--min-peers", "2", "--rounds", "10000", "--pause", "1s",
		"--model", tiny,
	}
	var two [2]*peer
	for i, host := range []int{hostA, hostB} {
		if two[i], err = b.start(host, dir, fmt.Sprintf("peer-%d", i+1), []*daemon{boot}, run...); err != nil {
			return p, err
		}
	}
	p.watch(ctx, two, began, b.cfg.Limit)
	return p, ctx.Err()
}

// watch follows two peers until they are connected as well as they will be and have trained
// together, or the limit has passed.
func (p *Pair) watch(ctx context.Context, two [2]*peer, began time.Time, limit time.Duration) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		for _, q := range two {
			q.ask(ctx)
			if err := q.read(); err != nil {
				p.Error = err.Error()
				return
			}
			if err := q.failed(); err != nil {
				p.Error = err.Error()
				return
			}
		}
		if p.observe(two, began, time.Now(), limit) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// observe takes in the reports of two peers, and says whether they are complete.
func (p *Pair) observe(two [2]*peer, began, now time.Time, limit time.Duration) (done bool) {
	a, b := two[0], two[1]
	if p.Slot == 0 {
		h, k := a.slots[1], b.slots[1]
		if h.root != "" && k.root != "" {
			if h.root != k.root {
				p.Error = "their state roots differ after slot 1"
				return true
			}
			p.Slot = since(began, later(h.at, k.at))
		}
	}
	w, ok := wayBetween(a, b)
	if !ok && p.Slot > 0 && !p.Connected {
		// no other node carried the slot: a relayed stream would be in the paths
		w, ok = path{Way: wayConnected, Since: now}, true
	}
	p.Connected = p.Connected && (ok || p.Last.Name == wayConnected) || ok
	if ok && (p.Last.Name != w.Way || p.Last.Transport != w.Transport) {
		p.Last = Way{w.Way, w.Transport, since(began, w.Since)}
		if p.First.Name == "" {
			p.First = p.Last
		}
	}
	best := p.Last.Name == wayDirect || p.Last.Name == wayPunched
	settled := p.Last.Name != "" && since(began, now) > p.Last.Seconds+settle.Seconds()
	return p.Connected && p.Slot > 0 && (best || settled) || now.Sub(began) > limit
}

// wayBetween is how two peers reach each other, if both do, and since when. If the two sides
// differ, the one that is not direct counts, because that side's traffic takes it.
func wayBetween(a, b *peer) (path, bool) {
	w, ok := a.way(b)
	v, too := b.way(a)
	if !ok || !too {
		return path{}, false
	}
	both := later(w.Since, v.Since)
	if rank(v.Way) > rank(w.Way) {
		w = v
	}
	w.Since = both
	return w, true
}

// rank orders ways by how far they are from a direct one.
func rank(way string) int {
	switch way {
	case wayDirect:
		return 0
	case wayPunched:
		return 1
	}
	return 2
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
