package document

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco"
)

// fact is a line of the summary of a peer.
type fact struct {
	what string
	of   func(slots []p2pdiloco.SlotMetrics) string // of at least one
}

func total[N uint64 | float64](slots []p2pdiloco.SlotMetrics, of func(m p2pdiloco.SlotMetrics) N) (sum N) {
	for _, m := range slots {
		sum += of(m)
	}
	return sum
}

// newestKnown is the newest value that is known.
func newestKnown(slots []p2pdiloco.SlotMetrics, of func(m p2pdiloco.SlotMetrics) *float64) string {
	for i := len(slots) - 1; i >= 0; i-- {
		if v := of(slots[i]); v != nil {
			return strconv.FormatFloat(*v, 'g', 5, 64)
		}
	}
	return "not measured"
}

// facts are of the slots that are in the file: of older ones there may be fewer.
var facts = []fact{
	{"slots measured", func(s []p2pdiloco.SlotMetrics) string {
		return fmt.Sprintf("%d, from %d to %d", len(s), s[0].Slot, s[len(s)-1].Slot)
	}},
	{"time", func(s []p2pdiloco.SlotMetrics) string {
		first, last := s[0].Time, s[len(s)-1].Time
		return fmt.Sprintf("%s, from %s to %s", last.Sub(first).Round(time.Second), first.Format(time.DateTime),
			last.Format(time.DateTime))
	}},
	{"held-out loss at last", func(s []p2pdiloco.SlotMetrics) string {
		return newestKnown(s, func(m p2pdiloco.SlotMetrics) *float64 { return m.HeldOut })
	}},
	{"training loss at last", func(s []p2pdiloco.SlotMetrics) string {
		return newestKnown(s, func(m p2pdiloco.SlotMetrics) *float64 { return m.Loss })
	}},
	{"trained on by the run", func(s []p2pdiloco.SlotMetrics) string {
		return humanize.Comma(int64(s[len(s)-1].RunTokens)) + " tokens or samples"
	}},
	{"trained on by this peer", func(s []p2pdiloco.SlotMetrics) string {
		tokens := total(s, func(m p2pdiloco.SlotMetrics) uint64 { return m.Tokens })
		return humanize.Comma(int64(tokens)) + " tokens or samples"
	}},
	{"time in inner steps", func(s []p2pdiloco.SlotMetrics) string {
		all := total(s, func(m p2pdiloco.SlotMetrics) float64 { return m.Seconds })
		return share(total(s, func(m p2pdiloco.SlotMetrics) float64 { return m.TrainingSeconds }), all)
	}},
	{"time stood still", func(s []p2pdiloco.SlotMetrics) string {
		all := total(s, func(m p2pdiloco.SlotMetrics) float64 { return m.Seconds })
		return share(total(s, func(m p2pdiloco.SlotMetrics) float64 { return m.StalledSeconds }), all)
	}},
	{"slots without this peer", func(s []p2pdiloco.SlotMetrics) string {
		return strconv.FormatUint(total(s, func(m p2pdiloco.SlotMetrics) uint64 {
			if m.OwnNorm == nil {
				return 1
			}
			return 0
		}), 10)
	}},
	{"members, at least and at most", func(s []p2pdiloco.SlotMetrics) string {
		least, most := s[0].Members, s[0].Members
		for _, m := range s {
			least, most = min(least, m.Members), max(most, m.Members)
		}
		return fmt.Sprintf("%d, %d", least, most)
	}},
	{"sent; received", func(s []p2pdiloco.SlotMetrics) string {
		return humanize.Bytes(total(s, func(m p2pdiloco.SlotMetrics) uint64 { return m.BytesSent })) + "; " +
			humanize.Bytes(total(s, func(m p2pdiloco.SlotMetrics) uint64 { return m.BytesReceived }))
	}},
	{"state root at last", func(s []p2pdiloco.SlotMetrics) string { return s[len(s)-1].StateRoot.String() }},
}

func share(part, all float64) string {
	if all <= 0 {
		return "not measured"
	}
	return fmt.Sprintf("%.1f%%", 100*part/all)
}

// table writes the summary as a LaTeX tabular.
func table(w io.Writer, peers []Peer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%% slots of a p2pdiloco run\n\\begin{tabular}{l%s}\n", strings.Repeat("r", len(peers)))
	for _, p := range peers {
		fmt.Fprintf(b, " & %s", latex(p.Name))
	}
	b.WriteString(" \\\\\n\\hline\n")
	for _, f := range facts {
		b.WriteString(latex(f.what))
		for _, p := range peers {
			fmt.Fprintf(b, " & %s", latex(f.of(p.Slots)))
		}
		b.WriteString(" \\\\\n")
	}
	b.WriteString("\\end{tabular}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// latex escapes text.
func latex(s string) string {
	return strings.NewReplacer(
		`\`, `\textbackslash{}`, `&`, `\&`, `%`, `\%`, `$`, `\$`, `#`, `\#`, `_`, `\_`, `{`, `\{`, `}`, `\}`,
		`~`, `\textasciitilde{}`, `^`, `\textasciicircum{}`, "\n", " ",
	).Replace(s)
}
