package slotbench

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

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/crew"
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

// run is one benchmark under way.
type run struct {
	cfg     Config
	testbed lab.Testbed
	crew    *crew.Crew
	dir     string
	peers   []*swarm.Process
}

// Run measures.
func Run(ctx context.Context, cfg Config) (_ Result, err error) {
	r := &run{cfg: cfg}
	// data directories of an earlier benchmark belong to another run
	if r.dir, err = os.MkdirTemp(cfg.Dir, "slot-"); err != nil {
		return Result{}, err
	}
	if r.testbed, err = bench.Open(ctx, 1+cfg.Peers, cfg.links()); err != nil {
		return Result{}, err
	}
	reports, err := r.measure(ctx)
	if err = errors.Join(err, r.testbed.Close()); err != nil {
		return Result{}, err
	}
	return newResult(cfg, reports)
}

// measure runs all processes to their ends.
func (r *run) measure(ctx context.Context) (reports []peerReport, err error) {
	if r.crew, err = crew.New(r.cfg.Setting, r.testbed); err != nil {
		return nil, err
	}
	defer r.crew.Close()
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
	slot := slotTime + trips*c.Delay + time.Duration(bytes*float64(time.Second))
	return settleTime + time.Duration(c.rounds())*slot
}

// start starts a bootstrap node at site 0, and the peers, which know its addresses alone.
func (r *run) start(ctx context.Context) error {
	boot, err := r.crew.StartBoot(ctx, 0, r.dir, r.crew.Listen(0)...)
	if err != nil {
		return err
	}
	c, runName := r.cfg, swarm.RunName("bench")
	for n := 1; n <= c.Peers; n++ {
		name := fmt.Sprintf("peer-%d", n)
		b, err := json.Marshal(order{
			Run: runName, Preset: c.preset(), Number: n, Peers: c.Peers, Elements: c.elements(), Rounds: c.rounds(),
			First: c.first(), Last: c.last(), Bootstrap: boot.Addrs, DataDir: filepath.Join(r.dir, name),
			Listen: lab.Listen(r.testbed, n, p2p.TransportTCP, p2p.TransportQUIC),
		})
		if err != nil {
			return err
		}
		cmd := r.crew.Command(n, HiddenCommand)
		cmd.Stdin = bytes.NewReader(b)
		p, err := r.crew.Start(cmd, r.dir, name)
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
