package natbench

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/nat"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// settle is how long a pair that is connected through a relay may take to find a better way before
// it is left at that.
const settle = 15 * time.Second

// tiny is the model of a pair: a slot is mostly agreement.
const tiny = "layers=1,width=16,heads=2,context=8,batch=2"

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

// pair lets two hosts train together, with a bootstrap node that knows no other peer. It follows
// them until they are connected as well as they will be and have trained together, or the limit has
// passed.
func (b *bench) pair(ctx context.Context, hostA, hostB int) (p Pair, err error) {
	p.A, p.B = b.world.Kind(hostA), b.world.Kind(hostB)
	dir := filepath.Join(b.cfg.Dir, fmt.Sprintf("%s-%s", p.A, p.B))
	defer b.crew.Stop()
	run := swarm.RunName("nat")
	boot, err := b.startRelay(ctx, 0, filepath.Join(dir, "bootstrap"), run)
	if err != nil {
		return p, err
	}
	began := time.Now()
	var two []*peer
	for i, host := range []int{hostA, hostB} {
		q, err := b.start(host, dir, fmt.Sprintf("peer-%d", i+1), run, []*relay{boot},
			"--start-peers", "2", "--min-peers", "2", "--pause", "1s", "--model", tiny)
		if err != nil {
			return p, err
		}
		two = append(two, q)
	}
	err = await(ctx, two, func() bool { return p.observe(two[0], two[1], began, time.Now(), b.cfg.Limit) })
	if err != nil {
		p.Error = err.Error()
	}
	return p, ctx.Err()
}

// observe takes in the reports of two peers, and says whether they are complete.
func (p *Pair) observe(a, b *peer, began, now time.Time, limit time.Duration) (done bool) {
	if h, k := a.slots[1], b.slots[1]; p.Slot == 0 && h.root != "" && k.root != "" {
		if h.root != k.root {
			p.Error = "their state roots differ after slot 1"
			return true
		}
		p.Slot = since(began, later(h.at, k.at))
	}
	w, ok := wayBetween(a, b)
	p.Connected = ok
	if ok && (p.Last.Name != w.Way || p.Last.Transport != w.Transport) {
		p.Last = Way{w.Way, w.Transport, since(began, w.Since)}
		if p.First.Name == "" {
			p.First = p.Last
		}
	}
	settled := p.Last.Name != "" && since(began, now) > p.Last.Seconds+settle.Seconds()
	return p.Connected && p.Slot > 0 && (direct(p.Last.Name) || settled) || now.Sub(began) > limit
}
