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

// run is one benchmark under way.
type run struct {
	cfg      Config
	place    bench.Place
	dir      string
	launcher *swarm.Launcher
	boot     swarm.Boot
	peers    []*swarm.Process
}

// Run measures. hurry ends the waiting for processes that were asked to stop.
func Run(ctx context.Context, cfg Config, hurry <-chan struct{}) (_ Result, err error) {
	r := &run{cfg: cfg}
	// data directories of an earlier benchmark belong to another run
	if r.dir, err = os.MkdirTemp(cfg.Dir, "slot-"); err != nil {
		return Result{}, err
	}
	if r.place, err = bench.Open(ctx, 1+cfg.Peers, cfg.links()); err != nil {
		return Result{}, err
	}
	reports, err := r.measure(ctx, hurry)
	if err = errors.Join(err, r.place.Close()); err != nil {
		return Result{}, err
	}
	return newResult(cfg, reports)
}

// measure runs all processes to their ends.
func (r *run) measure(ctx context.Context, hurry <-chan struct{}) ([]peerReport, error) {
	r.launcher = swarm.NewLauncher()
	defer r.launcher.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.limit(), errLate)
	defer cancel()
	err := r.start(ctx)
	if err == nil {
		err = r.await(ctx)
	}
	running := r.peers
	if r.boot.Process != nil {
		running = append(running, r.boot.Process)
	}
	swarm.StopAll(running, hurry)
	if err != nil {
		return nil, err
	}
	var reports []peerReport
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
func (r *run) start(ctx context.Context) (err error) {
	boot := func(name string, args ...string) (*swarm.Process, error) {
		return r.launcher.StartCommand(r.place.Command(0, r.cfg.Executable, args...), r.dir, name)
	}
	var listen []string
	for _, a := range r.listen(0) {
		listen = append(listen, "--listen", a)
	}
	if r.boot, err = swarm.StartBoot(ctx, r.dir, boot, listen...); err != nil {
		return err
	}
	name := swarm.RunName("bench")
	for n := 1; n <= r.cfg.Peers; n++ {
		if err := r.startPeer(name, n); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) startPeer(runName string, n int) error {
	c, name := r.cfg, fmt.Sprintf("peer-%d", n)
	b, err := json.Marshal(order{
		Run: runName, Preset: c.preset(), Number: n, Peers: c.Peers, Elements: c.elements(), Rounds: c.rounds(),
		First: c.first(), Last: c.last(), Listen: r.listen(n), Bootstrap: r.boot.Addrs,
		DataDir: filepath.Join(r.dir, name),
	})
	if err != nil {
		return err
	}
	cmd := r.place.Command(n, c.Executable, HiddenCommand)
	cmd.Stdin = bytes.NewReader(b)
	p, err := r.launcher.StartCommand(cmd, r.dir, name)
	if err == nil {
		r.peers = append(r.peers, p)
	}
	return err
}

func (r *run) listen(site int) []string {
	return r.place.Listen(site, p2p.TransportTCP, p2p.TransportQUIC)
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
