package main

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// demoPeer is one peer of the swarm as the demo sees it: through its events file, its status API
// and its exit.
type demoPeer struct {
	*lab.Peer
	n     int    // from 1
	parts uint64 // slots of a round

	losses map[uint64]float64 // held-out, by round
	roots  map[uint64]string  // state roots, by round
	round  uint64             // newest applied
	status p2pdiloco.Status   // the newest that it gave
	exited bool
	code   int
}

func newDemoPeer(n int, p *lab.Peer, parts uint64) *demoPeer {
	return &demoPeer{
		Peer: p, n: n, parts: parts, losses: make(map[uint64]float64), roots: make(map[uint64]string),
	}
}

func (p *demoPeer) observe(e eventlog.Line) {
	switch e.Event {
	case "slot.applied":
		if e.Slot%p.parts == 0 {
			p.round = max(p.round, e.Slot/p.parts)
			p.roots[e.Slot/p.parts] = e.StateRoot
		}
	case "trainer.stats":
		p.losses[e.Round] = e.Loss
	}
}

// idle says whether the peer surely waits for others.
func (p *demoPeer) idle() bool {
	return slices.Contains([]p2pdiloco.Phase{
		p2pdiloco.PhaseSearching, p2pdiloco.PhaseJoining, p2pdiloco.PhaseWaiting, p2pdiloco.PhasePaused,
	}, p.status.Phase)
}

// loss is the newest held-out loss.
func (p *demoPeer) loss() (loss float64, ok bool) {
	for round := p.round; ; round-- {
		if loss, ok = p.losses[round]; ok || round == 0 {
			return loss, ok
		}
	}
}

// peerName names a peer, and the folder of its data.
func peerName(n int) string { return fmt.Sprintf("peer-%d", n) }
