package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
)

// show prints a line for each thing that happened.
func (s *demoSwarm) show() {
	for ; s.started < len(s.peers) && s.peers[s.started].ID != ""; s.started++ {
		p := s.peers[s.started]
		s.Note(fmt.Sprintf("peer %d started: pid %d, ID %s; p2pdiloco status --api %s", p.n, p.PID(), p.ID, p.API))
	}
	for s.told < s.cfg.Spec.Rounds && s.known(s.told+1) {
		s.told++
		s.Note(s.roundLine(s.told))
	}
}

// known says whether a round can be reported: all living peers have applied it, and a loss is
// known.
func (s *demoSwarm) known(round uint64) bool {
	measured := false
	for _, p := range s.peers {
		if !p.exited && p.round < round {
			return false
		}
		_, ok := p.losses[round]
		measured = measured || ok
	}
	return measured
}

func (s *demoSwarm) roundLine(round uint64) string {
	var roots []string
	holders, loss, sent := 0, 0.0, uint64(0)
	for _, p := range s.peers {
		if root, ok := p.roots[round]; ok {
			roots = append(roots, root)
			holders++
		}
		if v, ok := p.losses[round]; ok {
			loss = v
		}
		sent += p.status.Sent
	}
	slices.Sort(roots)
	state := "no state root known"
	switch roots = slices.Compact(roots); len(roots) {
	case 0:
	case 1:
		state = fmt.Sprintf("state root %s on %d of %d peers", shortRoot(roots[0]), holders, len(s.peers))
	default:
		state = "STATE ROOTS DIFFER: " + strings.Join(roots, ", ")
	}
	unit := "slot"
	if s.cfg.fragments() > 1 { // several make a round
		unit = "round"
	}
	return fmt.Sprintf("%s %d of %d: held-out loss %.4f, %s, %s sent in all", unit, round, s.cfg.Spec.Rounds, loss,
		state, humanize.Bytes(sent))
}

func shortRoot(hash string) string { return hash[:min(8, len(hash))] }
