package step

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Bounds of the time that all takes: generous, so that a busy machine stays within.
const (
	settleTime = 3 * time.Minute
	slotTime   = 10 * time.Second
	trips      = 50   // round trips of a slot
	leastRate  = 10e6 // bytes a second of all peers together
)

var errLate = errors.New("it took far too long, and was stopped")

// run is one swarm under way.
type run struct {
	cfg     Config
	trust   string
	name    string // of the swarm, in the names of profiles
	testbed swarm.Testbed
	swarm   *swarm.Swarm
	dir     string
	peers   []*swarm.Process
}

// Run measures the trusts of cfg, and OpenMPI beside them, in turns.
func Run(ctx context.Context, cfg Config) (r bench.Report, err error) {
	var mpi *bench.MPI
	if cfg.MPI {
		if mpi, err = bench.OpenMPI(ctx, cfg.Dir, cfg.Peers, cfg.elements()); err != nil {
			return r, err
		}
		defer mpi.Close()
	}
	var turns []turn
	var rounds []bench.Round
	for n, slots := range cfg.turns() {
		one := cfg
		one.Slots = slots
		for _, trust := range cfg.trusts() {
			reports, err := swarmOf(ctx, one, trust, fmt.Sprintf("%s-%d", trust, n+1))
			if err != nil {
				return r, fmt.Errorf("trust %s, turn %d: %w", trust, n+1, err)
			}
			turns = append(turns, turn{one, trust, reports})
		}
		for i := range one.rounds() {
			if mpi == nil {
				break
			}
			x, err := mpi.Round(ctx, true)
			if err != nil {
				return r, err
			}
			if i >= warmUps {
				rounds = append(rounds, x)
			}
		}
	}
	return report(cfg, turns, rounds)
}

// swarmOf runs one swarm, and returns the reports of its peers.
func swarmOf(ctx context.Context, cfg Config, trust, name string) (_ []peerReport, err error) {
	r := &run{cfg: cfg, trust: trust, name: name}
	// data directories of an earlier swarm belong to another run
	if r.dir, err = os.MkdirTemp(cfg.Dir, "slot-"); err != nil {
		return nil, err
	}
	if r.testbed, err = bench.Open(ctx, 1+cfg.Peers, cfg.links()); err != nil {
		return nil, err
	}
	reports, err := r.measure(ctx)
	return reports, errors.Join(err, r.testbed.Close())
}

// measure runs all processes to their ends.
func (r *run) measure(ctx context.Context) (reports []peerReport, err error) {
	if r.swarm, err = swarm.New(r.cfg.Setting, r.testbed); err != nil {
		return nil, err
	}
	defer r.swarm.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.limit(), errLate)
	defer cancel()
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	if err := r.await(ctx); err != nil {
		return nil, err
	}
	for _, p := range r.peers {
		var one peerReport
		b, err := os.ReadFile(p.Stdout)
		if err == nil {
			err = json.Unmarshal(b, &one)
		}
		if err != nil {
			return nil, fmt.Errorf("the report of a peer: %w", err)
		}
		reports = append(reports, one)
	}
	return reports, nil
}

// limit is the time that all may take.
func (c Config) limit() time.Duration {
	bytes := float64(c.Bytes) * float64(c.Peers) / leastRate
	slot := slotTime + trips*c.RTT + time.Duration(bytes*float64(time.Second))
	return settleTime + time.Duration(c.rounds())*slot
}

// start starts a bootstrap node at site 0, and the peers, which know its addresses alone.
func (r *run) start(ctx context.Context) error {
	boot, err := r.swarm.StartBoot(ctx, 0, r.dir, r.swarm.Listen(0)...)
	if err != nil {
		return err
	}
	c, runName := r.cfg, swarm.RunName("bench")
	for n := 1; n <= c.Peers; n++ {
		name := fmt.Sprintf("peer-%d", n)
		b, err := json.Marshal(order{
			Run: runName, Preset: c.preset(), Trust: r.trust, Number: n, Peers: c.Peers, Elements: c.elements(),
			Rounds: c.rounds(),
			First:  c.first(), Last: c.last(), Bootstrap: boot.Addrs, DataDir: filepath.Join(r.dir, name),
			Profile: bench.ProfilePath(c.Profile, r.name+"-"+name),
			Listen:  swarm.Listen(r.testbed, n, p2p.TransportTCP, p2p.TransportQUIC),
		})
		if err != nil {
			return err
		}
		cmd := r.swarm.Command(n, HiddenCommand)
		cmd.Stdin = bytes.NewReader(b)
		p, err := r.swarm.Start(cmd, r.dir, name)
		if err != nil {
			return err
		}
		r.peers = append(r.peers, p)
	}
	return nil
}

// await waits until all peers have ended well, or one has not.
func (r *run) await(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var watchers sync.WaitGroup
	for i, p := range r.peers {
		watchers.Go(func() {
			select {
			case <-p.Ended:
			case <-ctx.Done():
				return
			}
			if code, _ := p.Exit(); code != 0 {
				fail(fmt.Errorf("peer %d ended with exit status %d; the end of its log:\n%s", i+1, code,
					swarm.Tail(p.Log)))
			}
		})
	}
	watchers.Wait()
	return context.Cause(ctx)
}
