package demo

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
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
		filepath.Join(s.cfg.Dir, name),
	}, swarm.Loopback...)
	for _, a := range bootstrap {
		args = append(args, "--bootstrap", a)
	}
	args = append(args, s.settings()...)
	for _, d := range s.cfg.Data {
		args = append(args, "--data", d)
	}
	var err error
	p.proc, err = s.launcher.Start(s.cfg.Executable, s.cfg.Dir, name, args...)
	return p, err
}

// settings are the run's settings, as flags. With so few rounds an outer step without momentum is
// best.
func (s *processes) settings() []string {
	c := s.cfg
	args := []string{
		"--run", s.run, "--preset", "lan", "--start-peers", strconv.Itoa(c.Peers),
		"--rounds", strconv.FormatUint(c.Rounds, 10), "--inner-steps", strconv.FormatUint(c.InnerSteps, 10),
		"--seed", strconv.FormatUint(c.Seed, 10), "--aggregator", c.Aggregator,
		"--mode", c.Mode, "--codec", cmp.Or(c.Codec, DefaultCodec), "--outer", "sgd", "--outer-lr", c.outerLR(),
		"--momentum", "0",
	}
	if c.Mode == p2pdiloco.ModeStreaming {
		s := c.streaming().Settled()
		args = append(args, "--fragments", strconv.FormatUint(s.Fragments, 10), "--fragment-delay", s.FragmentDelay,
			"--fragment-alpha", s.FragmentAlpha)
	}
	if c.Pace != "" {
		args = append(args, "--pace", c.Pace)
	}
	if c.RoundTime != "" {
		args = append(args, "--round-time", c.RoundTime)
	}
	if c.Aggregator == "trimmed_mean" {
		args = append(args, "--trim-permille", strconv.Itoa(trimPermille))
	}
	return args
}

// outerLR is the outer learning rate: results that come a slot late need a smaller one.
func (c Config) outerLR() string {
	if c.Mode == p2pdiloco.ModeSync || c.Mode == p2pdiloco.ModeStreaming {
		return "1.0"
	}
	return "0.7"
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
