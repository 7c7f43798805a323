package demo

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// processes is the processes of one demo.
type processes struct {
	cfg      Config
	run      string // name
	launcher *swarm.Launcher
	boot     swarm.Boot
	peers    []*peer
}

// startSwarm starts the bootstrap node, waits for its address and starts the peers. After an error
// stop must be called too.
func startSwarm(ctx context.Context, cfg Config) (*processes, error) {
	s := &processes{cfg: cfg, run: swarm.RunName("demo"), launcher: swarm.NewLauncher()}
	start := func(name string, args ...string) (*swarm.Process, error) {
		return s.launcher.Start(cfg.Executable, cfg.Dir, name, args...)
	}
	var err error
	if s.boot, err = swarm.StartBoot(ctx, cfg.Dir, start, swarm.Loopback...); err != nil {
		return s, err
	}
	for i := range cfg.Peers {
		p, err := s.startPeer(i+1, s.boot.Addrs)
		if err != nil {
			return s, err
		}
		s.peers = append(s.peers, p)
	}
	return s, nil
}

// startPeer starts peer n (from 1). It gets no address but those of the bootstrap node.
func (s *processes) startPeer(n int, bootstrap []string) (*peer, error) {
	name := fmt.Sprintf("peer-%d", n)
	p := newPeer(n, filepath.Join(s.cfg.Dir, name+".events"), s.cfg.fragments())
	args := append([]string{
		"join", "--json", "--log-level", "info", "--events", p.events, "--data-dir",
		filepath.Join(s.cfg.Dir, name), "--run", s.run, "--preset", "lan", "--linger", "5s",
	}, swarm.Loopback...)
	for _, a := range bootstrap {
		args = append(args, "--bootstrap", a)
	}
	run := s.cfg.spec()
	for _, f := range spec.Table() {
		if value := f.Text(run); value != "" {
			args = append(args, "--"+sources.Flag(f.Name), value)
		}
	}
	for _, d := range s.cfg.Data {
		args = append(args, "--data", d)
	}
	var err error
	p.proc, err = s.launcher.Start(s.cfg.Executable, s.cfg.Dir, name, args...)
	return p, err
}

// stop ends all processes, and returns when they have.
func (s *processes) stop(hurry <-chan struct{}) {
	var running []*swarm.Process
	for _, p := range s.peers {
		running = append(running, p.proc)
	}
	if s.boot.Process != nil {
		running = append(running, s.boot.Process)
	}
	swarm.StopAll(running, hurry)
	s.launcher.Close()
}
