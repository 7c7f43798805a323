package statesync

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// slowState is how long a state may still take before a fetch looks for another one.
const slowState = 30 * time.Second

// A lookout looks for another state while the one that is fetched comes slowly: a peer that drips a
// state which it alone has would else hold up the fetch for as long as it likes. It asks the peers
// that lack the state what they hold, and times one piece of it. So the fetch is given up only for
// a state that is known to come faster over this peer's own link; where that is what is slow, the
// fetch goes on.
type lookout struct {
	w    *swarm
	want []Target // the other states that would do
	size int64    // of a state, in bytes

	mark   time.Time     // where the window begins in which the pace is measured
	marked int64         // bytes that were there then
	left   time.Duration // that the rest will take, at the pace of the last window
	next   time.Time     // when to look again
	pause  time.Duration
	busy   bool // a look goes on
	looks  chan look
}

// look is what a look has found.
type look struct {
	takes time.Duration // the whole of the other state
	err   error
}

func newLookout(w *swarm, want []Target, size, done int64) *lookout {
	now := time.Now()
	return &lookout{
		w: w, want: want, size: size, mark: now, marked: done,
		next: now.Add(slowDonor), pause: slowDonor, looks: make(chan look, 1),
	}
}

// measure estimates how long the rest of the state will take. Each window ends when something has
// come, after slowDonor at the earliest. So a donor that gives much and then nothing is found out,
// too.
func (l *lookout) measure(done int64, now time.Time) {
	passed, gained := now.Sub(l.mark), done-l.marked
	if passed < slowDonor {
		return
	}
	l.left = time.Duration(float64(passed) * float64(l.size-done) / float64(max(gained, chunkBytes(l.size))))
	if gained > 0 {
		l.mark, l.marked = now, done
	}
}

// outpaced tells whether a look has found that another state would be whole in less than half of
// the time that the rest of this one will take.
func (l *lookout) outpaced(ctx context.Context, done int64) bool {
	now := time.Now()
	l.measure(done, now)
	select {
	case found := <-l.looks:
		l.busy = false
		if found.err == nil && 2*found.takes < l.left {
			return true
		}
		if found.err == nil { // it is this peer's link that is slow, or all donors are
			l.pause *= 2
		}
		l.next = now.Add(l.pause)
	default:
	}
	if l.left >= slowState && !l.busy && !now.Before(l.next) {
		l.start(ctx)
	}
	return false
}

// start looks in the background: among the peers that said that they lack the state that is
// fetched.
func (l *lookout) start(ctx context.Context) {
	var lacking []slot.PeerID
	support := 0 // how many hold this state; for one that fewer hold it is not given up
	for _, p := range l.w.candidates() {
		switch {
		case l.w.lacking[p]:
			lacking = append(lacking, p)
		case l.w.claiming[p]:
			support++
		}
	}
	if len(lacking) < max(1, support) {
		l.next = time.Now().Add(l.pause)
		return
	}
	quiet := *l.w.Client
	quiet.cfg.OnDrop = nil
	apart := quiet.begin(func() []slot.PeerID { return lacking })
	apart.order, apart.broken = maps.Clone(l.w.order), maps.Clone(l.w.broken)
	l.busy = true
	l.w.wg.Go(func() {
		takes, err := l.look(ctx, apart, support)
		l.looks <- look{takes, err}
	})
}

// look fetches one piece of the state that most of the peers hold, and says how long the whole of
// it would take. Fewer peers than support are not believed.
func (l *lookout) look(ctx context.Context, f *transfer, support int) (time.Duration, error) {
	s := survey{transfer: f, size: l.size, want: l.want}
	t, err := s.run(ctx)
	if err != nil {
		return 0, err
	}
	holding, _ := s.sides(t)
	if len(holding) < support {
		return 0, f.noDonor("a state that as many peers hold")
	}
	var errs []error
	for _, p := range f.candidates() {
		if !holding[p] {
			continue
		}
		began := time.Now()
		if err := l.try(ctx, f, p, t); err != nil {
			errs = append(errs, err)
			continue
		}
		pieces := (l.size + chunkBytes(l.size) - 1) / chunkBytes(l.size)
		donors := min(len(holding), maxDonors)
		return time.Since(began) * time.Duration(pieces) / time.Duration(donors), nil
	}
	return 0, errors.Join(errs...)
}

// try fetches the first piece of a state.
func (l *lookout) try(ctx context.Context, f *transfer, p slot.PeerID, t Target) error {
	c, err := f.dial.dial(ctx, p)
	if err != nil {
		return err
	}
	defer c.during(ctx)()
	_, err = c.chunk(make([]byte, min(chunkBytes(l.size), l.size)), t.Root, l.size, 0)
	c.close(err)
	return err
}
