package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco/spec"
)

// summarizeDemo writes the result for people.
func summarizeDemo(out io.Writer, cfg demoConfig, r demoResult) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nPEER\tLOSS FIRST\tLAST\tSENT\tOF DATA-PARALLEL\tROUNDS\tSTATE ROOT\tEXIT")
	for i, p := range r.Peers {
		fmt.Fprintf(w, "%d %s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\n", i+1, p.PeerID[max(0, len(p.PeerID)-6):],
			lossText(p.LossFirst), lossText(p.LossLast),
			humanize.Bytes(p.BytesSent), share(p.BytesSent, r.DDPBytes), p.RoundsApplied, shortRoot(p.StateRoot),
			p.Exit)
	}
	_ = w.Flush() // a strings.Builder takes everything
	fmt.Fprintf(&b, "\n%s\n", verdict(r))
	if r.DDPBytes > 0 {
		fmt.Fprintf(&b, "Synchronous data-parallel training of these %d parameters would have sent %s from each "+
			"peer: gradients at each of %d steps.\n",
			r.Params, humanize.Bytes(r.DDPBytes), cfg.Spec.Rounds*cfg.Spec.InnerSteps)
	}
	if r.LossCurve != "" {
		fmt.Fprintf(&b, "Loss curve: %s\nReport of the run: %s\n", r.LossCurve, r.Report)
	}
	b.WriteString(comparison(cfg, r))
	_, _ = io.WriteString(out, b.String())
}

func lossText(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *v)
}

func share(sent, of uint64) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f%%", 100*float64(sent)/float64(of))
}

// verdict is the sentence that the exit status stands for.
func verdict(r demoResult) string {
	switch {
	case r.OK() && len(r.Peers) == 1:
		return fmt.Sprintf("The peer finished (state root %s), and its loss fell.", r.Peers[0].StateRoot)
	case r.OK():
		return fmt.Sprintf("All %d peers hold the identical model (state root %s), and its loss fell.", len(r.Peers),
			r.Peers[0].StateRoot)
	case r.Identical:
		return "All peers hold the identical model, but its loss did not fall."
	default:
		return "NOT all peers finished with the identical model."
	}
}

// comparison says what the swarm's loss means in comparison with that of one peer.
func comparison(cfg demoConfig, r demoResult) string {
	if cfg.Peers < 2 || len(r.Losses) == 0 || len(r.AloneLosses) != len(r.Losses) {
		return ""
	}
	last := len(r.Losses) - 1
	// peers do as many inner steps as their speed allows
	if cfg.Spec.Settled().Pace != spec.PaceSteps {
		return fmt.Sprintf("The swarm ends at %.4f, one peer alone at %.4f after %d steps of its own. How many steps "+
			"each peer of the swarm did follows from its "+
			"speed, fewer where it was slower, so this compares neither equal steps nor equal tokens: `p2pdiloco "+
			"status` says what a member does.\n",
			r.Losses[last], r.AloneLosses[last], cfg.Spec.Rounds*cfg.Spec.InnerSteps)
	}
	return fmt.Sprintf("The swarm ends at %.4f, one peer alone at %.4f after the same %d steps of its own: alone it "+
		"saw 1/%d of the swarm's tokens, "+
		"so the difference is what the other peers' work added in the same number of steps, not what DiLoCo gains "+
		"over one machine given all those tokens.\n",
		r.Losses[last], r.AloneLosses[last], cfg.Spec.Rounds*cfg.Spec.InnerSteps, cfg.Peers)
}
