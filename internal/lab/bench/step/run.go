package step

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/node/rules"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// Bounds of the time that a swarm takes: generous, so that a busy machine stays within.
const (
	settleTime = 3 * time.Minute
	slotTime   = 10 * time.Second
	trips      = 50   // round trips of a slot
	leastRate  = 10e6 // bytes a second of all peers together
)

var errLate = errors.New("it took far too long, and was stopped")

// Run measures all cases of cfg, and OpenMPI beside them, in turns.
func Run(ctx context.Context, cfg Config) (r bench.Report, err error) {
	var mpi *bench.MPI
	if cfg.MPI {
		if mpi, err = bench.OpenMPI(ctx, cfg.Dir, cfg.Cases[0].Peers, cfg.Cases[0].elements()); err != nil {
			return r, err
		}
		defer mpi.Close()
	}
	for turn, slots := range cfg.turns() {
		for _, c := range cfg.Cases {
			if err := cfg.measure(ctx, &r, c, turn, slots); err != nil {
				return r, fmt.Errorf("%s, turn %d: %w", c.name(), turn+1, err)
			}
		}
		for n := range warmUps + slots {
			if mpi == nil {
				break
			}
			x, err := mpi.Round(ctx)
			if err != nil {
				return r, err
			}
			if n >= warmUps {
				r.Add(turn, cfg.Cases[0].nameOf("MPI"), 1, mpiValues(x)...)
			}
		}
	}
	compare(&r, cfg)
	return r, nil
}

// measure has one swarm do so many slots that count.
func (cfg Config) measure(ctx context.Context, r *bench.Report, c Case, turn int, slots uint64) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit(slots), errLate)
	defer cancel()
	testbed, err := bench.Open(ctx, 1+c.Peers, c.Links)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, testbed.Close()) }()
	s, err := swarm.New(cfg.Setting, testbed)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	// data directories of an earlier swarm belong to another run
	dir, err := os.MkdirTemp(cfg.Dir, "swarm-")
	if err != nil {
		return err
	}
	p := &peers{ctx: ctx, fail: fail, swarm: s, dir: dir}
	first := order{Case: c, Run: swarm.RunName("bench"), Slots: slots}
	if !c.Alone {
		boot, err := s.StartBoot(ctx, 0, dir, s.Listen(0)...)
		if err != nil {
			return err
		}
		first.Bootstrap = boot.Addrs
	}
	for n := range c.Peers {
		if err := p.start(n+1, fmt.Sprintf("peer-%d", n+1)); err != nil {
			return err
		}
	}
	answers, err := p.ask(func(i int) order {
		o := first
		o.Number, o.Listen = i+1, swarm.Listen(testbed, i+1, c.transports()...)
		o.DataDir = filepath.Join(dir, fmt.Sprintf("peer-%d", i+1))
		if cfg.Profile {
			o.Profile = o.DataDir + ".pprof"
		}
		return o
	})
	if err == nil && c.Alone {
		err = reductions(p, r, first, turn, answers)
	} else if err == nil {
		err = c.add(r, turn, slots, answers)
	}
	if err != nil {
		return err
	}
	return p.end()
}

// limit is the time that a swarm may take.
func (c Case) limit(slots uint64) time.Duration {
	bytes := float64(c.Bytes) * float64(c.Peers) / leastRate
	slot := slotTime + trips*c.Links.RTT + time.Duration(bytes*float64(time.Second))
	return settleTime + time.Duration(warmUps+slots+after)*slot
}

// reductions has peers without a ledger reduce, again and again. offers are their first answers.
func reductions(p *peers, r *bench.Report, first order, turn int, offers []answer) error {
	second := order{Plan: slot.Plan{Slot: 1}}
	for _, a := range offers {
		second.Plan.Offers, second.Bootstrap = append(second.Plan.Offers, a.Offer), append(second.Bootstrap, a.Addrs...)
	}
	slices.SortFunc(second.Plan.Offers, func(a, b slot.Offer) int { return strings.Compare(string(a.Peer), string(b.Peer)) })
	c := first.Case
	second.Plan.Pieces, second.Plan.Ring = rules.Reduction(c.spec(first.Run, first.Slots)).Planner()(second.Plan, slot.Links{})
	if _, err := p.ask(func(int) order { return second }); err != nil {
		return err
	}
	none := func(int) order { return order{} }
	memory, outcome := uint64(0), slot.Root{}
	for n := range warmUps + first.Slots {
		complete, err := p.ask(none)
		if err != nil {
			return err
		}
		ends, err := p.ask(none)
		if err != nil {
			return err
		}
		var x bench.Round
		for i, a := range ends {
			x.Seconds, x.CPU, x.Sent = max(x.Seconds, complete[i].Seconds), x.CPU+a.CPU, x.Sent+float64(a.Sent)
			memory = max(memory, a.Memory)
			if n == 0 && i == 0 {
				outcome = a.Outcome
			}
			if a.Outcome != outcome { // the contributions stay, and so must the outcome
				return fmt.Errorf("reduction %d: peer %d has another outcome than peer 1 had at first", n+1, i+1)
			}
		}
		if n >= warmUps {
			r.Add(turn, c.name(), 1, c.values(x)...)
		}
	}
	r.Add(turn, c.name(), first.Slots, c.memory(memory)...)
	return nil
}
