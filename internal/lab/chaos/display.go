package chaos

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/report"
)

const refresh = 250 * time.Millisecond

// show redraws the table if there is a terminal.
func (r *runner) show() {
	if !r.cfg.Terminal || time.Since(r.drawnAt) < refresh {
		return
	}
	r.drawnAt = time.Now()
	r.screen.Table(r.draw())
}

func (r *runner) draw() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PEER\tPID\tSLOT\tSTATE ROOT\tSENT\tPROCESSES\tSTATE")
	for _, p := range r.nodes {
		fmt.Fprintf(w, "%d %s\t%s\t%d\t%s\t%s\t%d\t%s\n", p.n, p.ID[max(0, len(p.ID)-6):], p.pid(), p.slot, p.root(),
			report.Bytes(p.sent+p.status.Sent), p.lives, p.doing())
	}
	_ = w.Flush() // a strings.Builder takes everything
	fmt.Fprintf(&b, "slot %d of %d, height %d, faults %d over, %d under way, %d to come, %.0f s\n",
		r.ledger.slot, r.cfg.Slots, r.ledger.height, len(r.done), len(r.active), len(r.pending),
		r.screen.Elapsed().Seconds())
	return b.String()
}

func (p *node) pid() string {
	if p.gone {
		return "-"
	}
	return fmt.Sprint(p.PID())
}

func (p *node) root() string {
	if p.status.Slot == 0 {
		return "-"
	}
	return short(p.status.StateRoot.String())
}

func (p *node) doing() string {
	switch {
	case p.hurt != nil && p.hurt.stage == returning:
		return "on its way back"
	case p.hurt != nil:
		return p.hurt.String()
	case p.gone:
		return "ended"
	}
	return string(p.status.Phase)
}
