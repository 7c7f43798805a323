package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// demoLines shows progress: a line for each thing that happened.
type demoLines struct {
	*lab.Notes
	cfg     demoConfig
	started int    // peers that were said to have started
	slot    uint64 // newest that was told
}

func newDemoLines(cfg demoConfig) *demoLines {
	return &demoLines{Notes: lab.NewNotes(cfg.Out), cfg: cfg}
}

func (l *demoLines) update(peers []*demoPeer) {
	for ; l.started < len(peers) && peers[l.started].ID != ""; l.started++ {
		p := peers[l.started]
		l.Note(fmt.Sprintf("peer %d started: pid %d, ID %s; p2pdiloco status --api %s", p.n, p.PID(), p.ID, p.API))
	}
	for l.slot < l.cfg.Spec.Rounds && told(peers, l.slot+1) {
		l.slot++
		l.Note(slotLine(peers, l.slot, l.cfg))
	}
}

// told says whether a slot can be reported: all living peers have applied it, and a loss is known.
func told(peers []*demoPeer, slot uint64) bool {
	measured := false
	for _, p := range peers {
		if !p.exited && p.slot < slot {
			return false
		}
		_, ok := p.losses[slot]
		measured = measured || ok
	}
	return measured
}

func slotLine(peers []*demoPeer, slot uint64, cfg demoConfig) string {
	var roots []string
	holders, loss, sent := 0, 0.0, uint64(0)
	for _, p := range peers {
		if root, ok := p.roots[slot]; ok {
			roots = append(roots, root)
			holders++
		}
		if v, ok := p.losses[slot]; ok {
			loss = v
		}
		sent += p.sent
	}
	slices.Sort(roots)
	state := "no state root known"
	switch roots = slices.Compact(roots); len(roots) {
	case 0:
	case 1:
		state = fmt.Sprintf("state root %s on %d of %d peers", shortRoot(roots[0]), holders, len(peers))
	default:
		state = "STATE ROOTS DIFFER: " + strings.Join(roots, ", ")
	}
	unit := "slot"
	if cfg.fragments() > 1 { // several make a round
		unit = "round"
	}
	return fmt.Sprintf("%s %d of %d: held-out loss %.4f, %s, %s sent in all", unit, slot, cfg.Spec.Rounds, loss, state,
		humanize.Bytes(sent))
}

func shortRoot(hash string) string { return hash[:min(8, len(hash))] }
