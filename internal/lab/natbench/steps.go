package natbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// step is one slot, and its disturbance.
type step struct {
	what   string
	before func(ctx context.Context) (note string, err error) // the slot begins; nil: nothing
	// while its bytes are on their way; nil: nothing
	during func(ctx context.Context) (note string, err error)
	after  func(ctx context.Context) error // it is over; nil: nothing
}

// patience is how many times a pair's limit a slot of the four may take.
const patience = 4

func (f *four) steps() []step {
	return []step{
		{what: "nothing", before: f.meet},
		{what: "the bootstrap node is killed", before: f.killBootstrap, after: f.restartBootstrap},
		{what: "a relay is killed while it carries the slot", during: f.killRelay},
		{what: "a peer's addresses change in mid-slot", during: f.move},
		{what: "nothing more"},
	}
}

// run lets a slot begin and watches it. It returns an error if the slot does not end.
func (f *four) run(ctx context.Context, s step) (r Step, err error) {
	f.slot++
	r = Step{What: s.what, Slot: f.slot}
	defer func() {
		if err != nil {
			r.Error = err.Error()
		}
	}()
	if s.before != nil {
		if r.Note, err = s.before(ctx); err != nil {
			return r, err
		}
	}
	f.opened, f.sent = time.Now(), f.total()
	if err := f.let(f.slot); err != nil {
		return r, err
	}
	limit := patience * f.cfg.Limit
	if s.during != nil {
		if err := f.await(ctx, limit, "a quarter of the slot's bytes", f.midway); err != nil {
			return r, err
		}
		if r.Note, err = s.during(ctx); err != nil {
			return r, err
		}
	}
	err = f.await(ctx, limit, fmt.Sprintf("slot %d at all peers", f.slot),
		func() bool { return f.holding(f.slot) == len(f.peers) })
	f.measure(&r)
	if err == nil && !r.Equal {
		err = fmt.Errorf("the state roots after slot %d differ", f.slot)
	}
	if err == nil && s.after != nil {
		err = s.after(ctx)
	}
	return r, err
}

// total is the number of bytes that all peers have sent.
func (f *four) total() (n uint64) {
	for _, p := range f.peers {
		n += p.seen.Sent
	}
	return n
}

// midway says whether a quarter of a slot's bytes was sent, or the slot is over.
func (f *four) midway() bool {
	n := uint64(len(f.peers))
	slot := 2 * (n - 1) * 4 * f.result.Parameters // bytes: each sends 2(N-1)/N of the vector
	return f.total() > f.sent+slot/4 || f.holding(f.slot) > 0
}

// holding is how many peers have a slot's state, or a later one's.
func (f *four) holding(slot uint64) (n int) {
	for _, p := range f.peers {
		if p.last >= slot {
			n++
		}
	}
	return n
}

// measure takes in what the peers' events say of the slot.
func (f *four) measure(r *Step) {
	var roots []string
	var first, last time.Time
	for _, p := range f.peers {
		h, ok := p.slots[r.Slot]
		if !ok || h.root == "" {
			continue
		}
		roots = append(roots, h.root)
		r.Contributors = max(r.Contributors, h.contributors)
		if first.IsZero() || h.at.Before(first) {
			first = h.at
		}
		last = later(last, h.at)
	}
	if len(roots) == 0 {
		return
	}
	r.First = since(f.opened, first)
	if f.holding(r.Slot) == len(f.peers) {
		r.All = since(f.opened, last)
	}
	r.Equal = len(slices.Compact(slices.Sorted(slices.Values(roots)))) == 1
}

// meet waits until all four are members and as well connected as they will be.
func (f *four) meet(ctx context.Context) (string, error) {
	limit := patience * f.cfg.Limit
	err := f.await(ctx, limit, "four members", func() bool {
		return !slices.ContainsFunc(f.peers, func(p *peer) bool { return p.seen.Phase != p2pdiloco.PhaseRunning })
	})
	if err != nil {
		return "", err
	}
	// Connections improve by themselves. If the status says nothing about them, there is nothing to
	// wait for.
	met := time.Now()
	err = f.await(ctx, settle+time.Minute, "ways", func() bool {
		f.result.Ways = f.ways()
		return time.Since(met) > settle || !slices.ContainsFunc(f.result.Ways,
			func(p Pair) bool { return rank(p.Last.Name) > rank(wayPunched) })
	})
	return "", err
}

func (f *four) killBootstrap(context.Context) (string, error) {
	f.boots[0].Signal(os.Kill)
	<-f.boots[0].Ended
	return "", nil
}

func (f *four) restartBootstrap(ctx context.Context) (err error) {
	f.boots[0], err = f.startDaemon(ctx, f.boots[0].host, f.boots[0].dir, f.name)
	return err
}

// killRelay kills a relay that is not a peer and through which two peers reach each other; the
// second relay if there is none.
func (f *four) killRelay(context.Context) (string, error) {
	if f.holding(f.slot) > 0 {
		return "", errors.New("the slot was over before: give more --size or less --rate")
	}
	victim, note := f.boots[1], "nobody was relayed through it"
	for i, p := range f.peers {
		for _, q := range f.peers[i+1:] {
			w, _ := wayBetween(p, q)
			if d := f.daemon(w.Relay); d != nil {
				victim, note = d, fmt.Sprintf("it carried %s and %s", p.kind, q.kind)
			}
		}
	}
	victim.Signal(os.Kill)
	<-victim.Ended
	return note, nil
}

// daemon is the node with an ID that is no peer, or nil.
func (f *four) daemon(id string) *daemon {
	i := slices.IndexFunc(f.boots, func(d *daemon) bool { return id != "" && d.id() == id })
	if i < 0 {
		return nil
	}
	return f.boots[i]
}

// move takes a peer to another network.
func (f *four) move(ctx context.Context) (string, error) {
	if f.holding(f.slot) > 0 {
		return "", errors.New("the slot was over before: give more --size or less --rate")
	}
	p := f.peers[f.moved]
	before := f.world.PublicAddr(p.host)
	if err := f.world.Move(ctx, p.host, siteSpare); err != nil {
		return "", err
	}
	return fmt.Sprintf("the %s peer's, from %v to %v", p.kind, before, f.world.PublicAddr(p.host)), nil
}
