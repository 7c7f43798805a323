package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/p2pdiloco/p2pdiloco"
)

// printStandingOut writes a line for each thing that stands out in what a member contributes.
func printStandingOut(w io.Writer, members []p2pdiloco.MemberStatus) {
	for _, m := range members {
		for _, f := range m.StandsOut {
			fmt.Fprintf(w, "stands out\t%s %s, since slot %d\n", m.Peer.Short(), f.Words, f.Since)
		}
	}
}

// printFigures writes what the members contribute, as far as that is known.
func printFigures(out io.Writer, members []p2pdiloco.MemberStatus) {
	if !slices.ContainsFunc(members, func(m p2pdiloco.MemberStatus) bool { return m.Figures != nil }) {
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "\nPEER\tSLOT\tNORM\tNORM/MEDIAN\tCOSINE TO OTHERS\tTRIMMED\tCLIP FACTOR")
	for _, m := range members {
		if f := m.Figures; f != nil {
			fmt.Fprintf(w, "%s\t%d\t%.3g\t%s\t%s\t%.0f%%\t%.2g\n", m.Peer.Short(), f.Slot, f.Norm,
				figure(f.Ratio), figure(f.Cosine), 100*f.Trimmed, f.Clip)
		}
	}
}

func figure(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2g", *v)
}
