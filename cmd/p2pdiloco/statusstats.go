package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/p2pdiloco/p2pdiloco"
)

// printStats writes the lines of a status that say how the training goes, as far as it is known.
func printStats(w io.Writer, s p2pdiloco.StatsStatus) {
	if s.Loss != nil {
		fmt.Fprintf(w, "loss\t%.4f held out, after slot %d\n", *s.Loss, s.LossSlot)
	}
	if s.Slot == 0 {
		return
	}
	fmt.Fprintf(w, "newest slot\t%d contributors, %s\n", s.Contributors, staleness(s))
	parts := []string{fmt.Sprintf("norm %.4g", s.Norm)}
	if s.OwnNorm != nil {
		parts = append(parts, fmt.Sprintf("own %.4g", *s.OwnNorm))
	}
	if s.Cosine != nil {
		parts = append(parts, fmt.Sprintf("cosine of the own to it %.2f", *s.Cosine))
	}
	if s.PairCosine != nil {
		parts = append(parts, fmt.Sprintf("between peers %.2f", *s.PairCosine))
	}
	fmt.Fprintf(w, "gradient\t%s\n", strings.Join(parts, ", "))
}

func staleness(s p2pdiloco.StatsStatus) string {
	if s.MaxStaleness == 0 {
		return "none stale"
	}
	return fmt.Sprintf("stale by %.1f slots in the mean, %d at most", s.Staleness, s.MaxStaleness)
}
