package natbench

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/crew"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/nat"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// poll is how often peers are asked for their status.
const poll = 100 * time.Millisecond

// peer is a `join` on a host of the world.
type peer struct {
	*crew.Peer
	host   int
	kind   nat.Kind
	slots  map[uint64]held
	last   uint64           // newest slot applied or fetched
	status p2pdiloco.Status // the newest that it gave
}

// held is what a peer's events say about a slot.
type held struct {
	root         string
	at           time.Time
	contributors int
}

// start starts a peer on a host, with its files in dir.
func (b *bench) start(host int, dir, name, run string, boots []*relay, args ...string) (*peer, error) {
	p := &peer{
		Peer: b.crew.NewPeer(host, dir, name), host: host, kind: b.world.Kind(host), slots: make(map[uint64]held),
	}
	var addrs []string
	for _, r := range boots {
		addrs = append(addrs, r.Addrs...)
	}
	return p, b.crew.Join(p.Peer, run, addrs, append([]string{
		"--preset", b.cfg.Preset, "--log-level", "info", "--inner-steps", "1", "--aggregator", "mean",
		"--outer-lr", "0.7", "--momentum", "0", "--held-out", "1", "--rounds", "10000", "--data", b.text,
	}, args...)...)
}

// await follows peers until done returns true, one of them ends, or ctx does.
func await(ctx context.Context, peers []*peer, done func() bool) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		for _, p := range peers {
			if s, _, err := p.Ask(ctx); err == nil {
				p.status = s
			}
			if err := p.Read(p.observe); err != nil {
				return err
			}
			if err := p.Failure(); err != nil {
				return err
			}
		}
		if done() {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *peer) observe(e eventlog.Line) {
	h := p.slots[e.Slot]
	switch e.Event {
	case "slot.committed":
		var who []string
		if json.Unmarshal(e.Contributors, &who) == nil {
			h.contributors = len(who)
		}
	case "slot.applied", "state.synced":
		h.root, h.at = e.StateRoot, e.Time
		p.last = max(p.last, e.Slot)
	default:
		return
	}
	p.slots[e.Slot] = h
}

// way is how it reaches another peer; ok is false if it does not.
func (p *peer) way(to *peer) (w p2p.Path, ok bool) {
	for _, m := range p.status.Members {
		if m.Peer.String() == to.ID && m.Path != nil {
			return *m.Path, true
		}
	}
	return w, false
}

// wayBetween is how two peers reach each other, if both do, and since when. If the two sides
// differ, the one that is not direct counts, because that side's traffic takes it.
func wayBetween(a, b *peer) (p2p.Path, bool) {
	w, ok := a.way(b)
	v, too := b.way(a)
	if !ok || !too {
		return p2p.Path{}, false
	}
	both := later(w.Since, v.Since)
	if slices.Index(ranks, v.Way) > slices.Index(ranks, w.Way) {
		w = v
	}
	w.Since = both
	return w, true
}

// ranks orders ways, those that no other node carries first.
var ranks = []string{p2p.WayDirect, p2p.WayPunched, p2p.WayRelayed}

// direct says whether no other node carries what a way carries.
func direct(way string) bool { return way == p2p.WayDirect || way == p2p.WayPunched }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
