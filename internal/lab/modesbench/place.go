package modesbench

import (
	"context"
	"os/exec"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

const (
	labName   = "p2pbench"
	linkDelay = 5 * time.Millisecond // there and back between two peers: 20 ms
)

// place is where processes run: on this machine's loopback, or each in a namespace of its own. Site
// 0 is the bootstrap node's.
type place struct{ namespaces *lab.Lab }

func openPlace(ctx context.Context, cfg Config) (place, error) {
	if !cfg.Namespaces {
		return place{}, nil
	}
	l, err := lab.New(ctx, lab.Config{
		Nodes: 1 + cfg.Peers, Name: labName,
		Link: lab.Link{Rate: cfg.Rate, Delay: linkDelay},
	})
	if err != nil {
		return place{}, err
	}
	return place{l}, nil
}

func (p place) listen(site int) []string {
	if p.namespaces == nil {
		return swarm.Loopback
	}
	return p.namespaces.Listen(site)
}

func (p place) command(site int, program string, args ...string) *exec.Cmd {
	if p.namespaces == nil {
		return exec.Command(program, args...)
	}
	return p.namespaces.Command(site, program, args...)
}

// Close takes the namespaces down; all processes have ended.
func (p place) Close() error {
	if p.namespaces == nil {
		return nil
	}
	return p.namespaces.Close()
}
