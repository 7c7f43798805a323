package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/failpoint/order"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
)

// The tiniest model that is one: a slot is mostly agreement, and a hundred processes' arithmetic
// takes no time.
const (
	model = "layers=1,width=16,heads=2,context=8,batch=2"
	pause = 150 * time.Millisecond // for inner steps: the time in which nothing is owed
)

const gateFile = "gate"

// start starts the bootstrap node and the peers.
func (r *runner) start(ctx context.Context) error {
	if err := errors.Join(lab.WriteText(filepath.Join(r.dir, "text")), r.openGate()); err != nil {
		return err
	}
	if err := r.startBoot(ctx); err != nil {
		return err
	}
	for i := range r.cfg.Peers {
		if err := r.startNode(r.addNode()); err != nil {
			return err
		}
		if i == 0 && r.oneFounds {
			if err := r.awaitFounding(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// foundWithin is how long the others wait for the first peer to found the run.
const foundWithin = 20 * time.Second

// awaitFounding waits until the first peer has founded the run. On a machine that is busy with
// other work two peers that start at once may not hear each other in time, and found two runs of
// one name.
func (r *runner) awaitFounding(ctx context.Context) error {
	began := time.Now()
	for r.ledger.height == 0 && time.Since(began) < foundWithin {
		if err := cmp.Or(r.read(), r.sleep(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// startBoot starts the bootstrap node. It comes back where the others look for it.
func (r *runner) startBoot(ctx context.Context) (err error) {
	args := []string{"--identity", filepath.Join(r.dir, "bootstrap.key")}
	for _, a := range r.boot.Addrs {
		place, _, _ := strings.Cut(a, "/p2p/")
		args = append(args, "--listen", place)
	}
	if r.boot.Addrs == nil {
		args = append(args, r.swarm.Listen(0)...)
	}
	r.boot, err = r.swarm.StartBoot(ctx, 0, r.dir, args...)
	return err
}

func (r *runner) addNode() *node {
	n := len(r.nodes) + 1
	p := &node{Peer: r.swarm.NewPeer(n, r.dir, fmt.Sprintf("peer-%d", n)), n: n, gone: true}
	if slices.Contains(r.cfg.Kinds, Failpoint) {
		p.Env = []string{order.Variable + "=" + p.orders()}
	}
	r.nodes = append(r.nodes, p)
	return p
}

// startNode starts a process of a peer, its first or a later one. A peer without data also gets the
// address of one other peer, so that it finds the run while the bootstrap node is down.
func (r *runner) startNode(p *node) error {
	boots := r.boot.Addrs
	if _, err := os.Stat(p.Data); err != nil {
		boots = slices.Concat(boots, r.acquaintance(p))
	}
	err := r.swarm.Join(p.Peer, r.name, boots, slices.Concat(r.settings(), r.training(), r.swarm.Listen(p.n))...)
	p.asked, p.gone = false, err != nil
	return err
}

// startAll starts those of some peers that have no process.
func (r *runner) startAll(some []*node) (err error) {
	for _, p := range some {
		if p.gone {
			err = errors.Join(err, r.startNode(p))
		}
	}
	return err
}

// settings are the flags that all peers have.
func (r *runner) settings() []string {
	run := r.cfg.Settings()
	linger := 10 * time.Second // for which finished peers serve the model
	if slices.Contains(r.cfg.Kinds, End) {
		linger *= 3 // one that is started at the end must find them, on a machine that is busy too
	}
	args := []string{
		"--preset", cmp.Or(r.cfg.Preset, edge.PresetLAN), "--linger", r.cfg.stretch(linger).String(),
		"--log-level", "info",
		"--rounds", fmt.Sprint(r.cfg.Slots / run.Fragments), "--inner-steps", fmt.Sprint(run.InnerSteps),
		"--start-peers", fmt.Sprint(r.cfg.Peers + r.hostile), "--mode", r.cfg.Mode, "--codec", run.Codec,
		"--trust", run.Trust,
		"--outer-lr", "0.7", "--momentum", "0.6",
	}
	if run.Mode == p2pdiloco.ModeStreaming {
		args = append(args, "--fragments", fmt.Sprint(run.Fragments), "--fragment-delay", run.FragmentDelay,
			"--fragment-alpha", run.FragmentAlpha)
	}
	return args
}

// training are the flags of all peers with a trainer.
func (r *runner) training() []string {
	return []string{
		"--data", filepath.Join(r.dir, "text"), "--gate", filepath.Join(r.dir, gateFile), "--model", model,
		"--pause", cmp.Or(r.cfg.Pause, pause).String(),
	}
}

// acquaintance is the addresses of a peer that a newcomer may know.
func (r *runner) acquaintance(p *node) []string {
	for _, q := range r.nodes {
		if q != p && q.running() && q.hurt == nil && r.ledger.height > 0 {
			return q.Addrs
		}
	}
	return nil
}
