package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// SoakConfig says how long two swarms run beside each other, one of which is hurt.
type SoakConfig struct {
	Config
	Minutes       float64
	FaultsPerHour int
}

// SoakKinds are the faults of a soak: those that one peer, or the bootstrap node, has at a time.
var SoakKinds = lab.Names[Kind]{"kill", "leader", "restart", "wipe", "stop", "bootstrap"}

const (
	maxMinutes       = 24 * 60
	maxFaultsPerHour = 1200
	// more slots than a soak can have: it ends by time
	soakSlots = 10_000_000
	// the gate stands open for so many slots more
	soakAhead = 4
	soakPause = 500 * time.Millisecond
	// for the swarms to form, and for the last fault and the last slots
	soakSlack = 10 * time.Minute
)

// Validate returns all faults of c in one error.
func (c SoakConfig) Validate() error {
	var f sources.Faults
	f.Add(!(c.Minutes > 0 && c.Minutes <= maxMinutes), "minutes", c.Minutes, "allowed: above 0, to %d", maxMinutes)
	f.Add(c.FaultsPerHour < 0 || c.FaultsPerHour > maxFaultsPerHour, "faults-per-hour", c.FaultsPerHour,
		"allowed: 0 to %d", maxFaultsPerHour)
	for _, k := range c.Kinds {
		f.Add(!slices.Contains(SoakKinds, k), "faults", c.Kinds, "%s is not for a soak; allowed: %v", k, SoakKinds)
	}
	c.Slots = minSlots
	return errors.Join(append(f, c.Config.Validate())...)
}

// length is how long slots count.
func (c SoakConfig) length() time.Duration { return time.Duration(c.Minutes * float64(time.Minute)) }

// Replay is the command line that runs the same schedule again.
func (c SoakConfig) Replay() string {
	return fmt.Sprintf("p2plab soak --peers %d --minutes %g --faults-per-hour %d --trust %s --seed %d --faults %v",
		c.Peers, c.Minutes, c.FaultsPerHour, c.Trust, c.Seed, c.Kinds)
}

// SoakSchedule draws the faults of a soak: one in each interval, at a random time in it. Each kind
// occurs once before any occurs again.
func SoakSchedule(c SoakConfig) []Fault {
	rng := rand.New(rand.NewPCG(c.Seed, 0x73_6f_61_6b))
	deck := cards(rng, 0, c.Kinds)
	if c.FaultsPerHour == 0 {
		return nil
	}
	interval := time.Hour.Seconds() / float64(c.FaultsPerHour)
	return deal(rng, c.Peers, deck, int(c.length().Seconds()/interval), func(i int, f *Fault) {
		f.After = (float64(i) + rng.Float64()) * interval
	})
}

// soak is what a swarm of a soak has beside its runner.
type soak struct {
	length time.Duration
	from   time.Time // slots count from here on; zero: it does not train yet
	ends   []ending  // what the peers held at the end; nil before
}

// Soak runs an undisturbed swarm and one that is hurt beside each other. An error means that there
// is no result.
func Soak(ctx context.Context, cfg SoakConfig) (res SoakResult, err error) {
	timed, cancel := context.WithTimeoutCause(ctx, cfg.length()+soakSlack,
		fmt.Errorf("%w: the soak is not over %v after its time", errHang, soakSlack))
	defer cancel()
	var errs [2]error
	var both sync.WaitGroup
	play := func(name string, out io.Writer, faults []Fault, res *Result, err *error) {
		c := cfg.Config
		c.Slots, c.Pause = soakSlots, soakPause
		r := newRunner(c, filepath.Join(cfg.Dir, name), lab.NewNotes(out), faults)
		r.soak, r.lead, r.limit = &soak{length: cfg.length()}, r.goOn, r.ahead
		both.Go(func() {
			if *res, *err = r.play(timed); !res.OK {
				cancel() // there is nothing to compare with
			}
		})
	}
	play("faulted", cfg.Out, SoakSchedule(cfg), &res.Faulted, &errs[0])
	play("control", io.Discard, nil, &res.Control, &errs[1])
	both.Wait()
	if err := errors.Join(errs[0], errs[1], ctx.Err()); err != nil {
		return res, err
	}
	res.Minutes, res.Replay = cfg.Minutes, cfg.Replay()
	if res.judge(); !res.Met {
		res.Dir = cfg.Dir
	}
	res.print(cfg.Out)
	return res, nil
}

// goOn takes a soak one step further: it ends once the time is over, the last fault too, and all
// peers hold the state after the last slot.
func (r *runner) goOn() error {
	s := r.soak
	if s.from.IsZero() && r.ledger.slot >= quietFirst {
		s.from = time.Now()
	}
	if s.isOver() {
		if r.pending = nil; len(r.active) == 0 && r.ledger.slot >= r.gate.slot {
			s.ends = r.held()
		}
	}
	return nil
}

// isOver says whether the time that counts is over.
func (s *soak) isOver() bool { return !s.from.IsZero() && time.Since(s.from) >= s.length }

// held is what the peers hold after the last slot; nil if one of them does not hold it yet.
func (r *runner) held() (ends []ending) {
	for _, p := range r.nodes {
		if !p.running() || p.status.Slot != r.gate.slot {
			return nil
		}
		ends = append(ends, ending{peer: p.n, finished: true, slot: p.status.Slot, root: p.status.StateRoot.String()})
	}
	r.cfg.Slots = r.gate.slot
	return ends
}

// ahead is the slot up to which a soak's peers may train. Once its time and its last fault are
// over, the gate stays where it is.
func (r *runner) ahead() uint64 {
	if r.soak.isOver() && len(r.active)+len(r.pending) == 0 {
		return r.gate.slot
	}
	return r.ledger.slot + soakAhead
}
