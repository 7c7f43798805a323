package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
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
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	if err := writeText(filepath.Join(r.dir, "text")); err != nil {
		return err
	}
	if err := r.openGate(); err != nil {
		return err
	}
	r.boot.args = append([]string{"--identity", filepath.Join(r.dir, "bootstrap.key")}, r.net.listen(0)...)
	if err := r.startBoot(ctx); err != nil {
		return err
	}
	r.boot.args = r.boot.args[:2]
	for _, a := range r.boot.Addrs { // it comes back where the others look for it
		place, _, _ := strings.Cut(a, "/p2p/")
		r.boot.args = append(r.boot.args, "--listen", place)
	}
	for n := 1; n <= r.cfg.Peers; n++ {
		if err := r.startNode(r.addNode()); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) startBoot(ctx context.Context) (err error) {
	r.boot.Boot, err = swarm.StartBoot(ctx, r.dir, func(name string, args ...string) (*swarm.Process, error) {
		if r.boot.Process != nil {
			name = fmt.Sprintf("%s.%d", name, time.Now().UnixMilli())
		}
		return r.launcher.StartCommand(r.net.command(0, r.cfg.Executable, args...), r.dir, name)
	}, r.boot.args...)
	return err
}

func (r *runner) addNode() *node {
	p := newNode(len(r.nodes)+1, r.dir, r.sockets)
	r.nodes = append(r.nodes, p)
	return p
}

// startNode starts a process of a peer, its first or a later one. A peer without data also gets the
// address of one other peer, so that it finds the run while the bootstrap node is down.
func (r *runner) startNode(p *node) (err error) {
	p.lives++
	name := fmt.Sprintf("peer-%d", p.n)
	if p.lives > 1 {
		name = fmt.Sprintf("peer-%d.%d", p.n, p.lives)
	}
	run := r.cfg.Settings()
	args := append([]string{
		"join", "--run", r.name, "--preset", "lan", "--json", "--log-level", r.cfg.LogLevel, "--events", p.events(),
		"--data-dir", p.dir,
		"--api", p.api, "--data", filepath.Join(r.dir, "text"), "--model", model, "--gate",
		filepath.Join(r.dir, gateFile), "--pause", pause.String(),
		"--rounds", strconv.FormatUint(r.cfg.Slots/run.Fragments, 10), "--inner-steps",
		strconv.FormatUint(run.InnerSteps, 10), "--start-peers", strconv.Itoa(r.cfg.Peers),
		"--mode", r.cfg.Mode, "--codec", run.Codec, "--outer-lr", "0.7", "--momentum", "0.6",
	}, r.net.listen(p.n)...)
	if run.Mode == p2pdiloco.ModeStreaming {
		args = append(args, "--fragments", strconv.FormatUint(run.Fragments, 10), "--fragment-delay", run.FragmentDelay,
			"--fragment-alpha", run.FragmentAlpha)
	}
	for _, a := range r.boot.Addrs {
		args = append(args, "--bootstrap", a)
	}
	if _, err := os.Stat(p.dir); err != nil {
		for _, a := range r.acquaintance(p) {
			args = append(args, "--bootstrap", a)
		}
	}
	p.asked, p.gone = false, false
	p.proc, err = r.launcher.StartCommand(r.net.command(p.n, r.cfg.Executable, args...), r.dir, name)
	if err != nil {
		p.gone = true
		return err
	}
	p.logs = append(p.logs, p.proc.Log)
	return nil
}

// acquaintance is the addresses of a peer that a newcomer may know.
func (r *runner) acquaintance(p *node) []string {
	for _, q := range r.nodes {
		if q != p && q.running() && q.hurt == nil && r.ledger.slot > 0 {
			return q.addrs
		}
	}
	return nil
}

// writeText makes something to train on: what is learnt does not matter, but it must be the same
// everywhere.
func writeText(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("any node may die at any moment several in a row the founder and the others carry on " +
		"with identical state")
	for f := range 4 {
		var b strings.Builder
		for b.Len() < 16<<10 {
			b.WriteString(words[rng.IntN(len(words))] + " ")
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.txt", f)), []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
