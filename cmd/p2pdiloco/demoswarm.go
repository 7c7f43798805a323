package main

import (
	"context"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// demoSwarm is the processes of one demo, and what was seen and told of them.
type demoSwarm struct {
	*lab.Swarm
	*lab.Notes
	cfg     demoConfig
	run     string // name
	peers   []*demoPeer
	active  time.Time // when a living peer last did something
	started int       // peers that were said to have started
	told    uint64    // newest round that was told
}

// start starts the bootstrap node, waits for its address and starts the peers.
func (s *demoSwarm) start(ctx context.Context) error {
	boot, err := s.StartBoot(ctx, 0, s.cfg.Dir, s.Listen(0)...)
	if err != nil {
		return err
	}
	for i := range s.cfg.Peers {
		if err := s.startPeer(i+1, boot.Addrs); err != nil {
			return err
		}
	}
	return nil
}

// startPeer starts peer n (from 1). It gets no address but those of the bootstrap node.
func (s *demoSwarm) startPeer(n int, bootstrap []string) error {
	p := newDemoPeer(n, s.NewPeer(n, s.cfg.Dir, peerName(n)), s.cfg.fragments())
	args := append([]string{"--log-level", "info", "--preset", "lan", "--linger", "5s"}, s.Listen(n)...)
	run := s.cfg.spec()
	for _, f := range spec.Table() {
		if value := f.Text(run); value != "" {
			args = append(args, "--"+sources.Flag(f.Name), value)
		}
	}
	for _, d := range s.cfg.Data {
		args = append(args, "--data", d)
	}
	if err := s.Join(p.Peer, s.run, bootstrap, args...); err != nil {
		return err
	}
	s.peers = append(s.peers, p)
	return nil
}
