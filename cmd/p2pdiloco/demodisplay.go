package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// demoDisplay shows progress.
type demoDisplay interface {
	update(peers []*demoPeer)
	note(text string)
}

func newDisplay(cfg demoConfig) demoDisplay {
	l := &demoLines{cfg: cfg, screen: swarm.NewScreen(cfg.Out, cfg.Width)}
	if cfg.Terminal {
		return &demoTable{demoLines: l}
	}
	return l
}

// demoLines shows progress if the output is not a terminal: a line for each thing that happened.
type demoLines struct {
	cfg     demoConfig
	screen  *swarm.Screen
	started int    // peers that were said to have started
	slot    uint64 // newest that was told
}

func (l *demoLines) update(peers []*demoPeer) {
	for ; l.started < len(peers) && peers[l.started].ID != ""; l.started++ {
		p := peers[l.started]
		l.note(fmt.Sprintf("peer %d started: pid %d, ID %s; p2pdiloco status --api %s", p.n, p.PID(), p.ID, p.API))
	}
	for l.slot < l.cfg.Spec.Rounds && told(peers, l.slot+1) {
		l.slot++
		l.note(slotLine(peers, l.slot, l.cfg))
	}
}

func (l *demoLines) note(text string) { l.screen.Note(text) }

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

// demoTable shows progress on a terminal: one table that is drawn again and again, with notes above
// it.
type demoTable struct{ *demoLines }

func (t *demoTable) update(peers []*demoPeer) { t.screen.Table(t.draw(peers)) }

func (t *demoTable) draw(peers []*demoPeer) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PEER\tPID\tSLOT\tSTEPS\tLOSS\tSTATE ROOT\tSENT\tSTATE")
	for _, p := range peers {
		loss := "-"
		if v, ok := p.loss(); ok {
			loss = fmt.Sprintf("%.4f", v)
		}
		steps := "-"
		if !p.exited && p.slot < t.cfg.Spec.Rounds {
			steps = fmt.Sprintf("%d/%d", p.steps, cmp.Or(uint64(p.asked), t.cfg.Spec.InnerSteps))
		}
		fmt.Fprintf(w, "%d %s\t%d\t%d/%d\t%s\t%s\t%s\t%s\t%s\n", p.n, p.ID[max(0, len(p.ID)-6):], p.PID(),
			p.slot, t.cfg.Spec.Rounds, steps, loss, shortRoot(p.roots[p.slot]), humanize.Bytes(p.sent), p.doing)
	}
	_ = w.Flush() // a strings.Builder takes everything
	fmt.Fprintf(&b, "%.0f s\n", t.screen.Elapsed().Seconds())
	return b.String()
}
