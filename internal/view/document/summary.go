package document

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco"
)

// fact is a line of the summary of a peer.
type fact struct {
	what string
	of   func(s slots) string // of at least one
}

// facts are of the slots that are in the file: of older ones there may be fewer.
var facts = []fact{
	{"slots measured", func(s slots) string {
		return fmt.Sprintf("%d, from %d to %d", len(s), s[0].Slot, s.last().Slot)
	}},
	{"time", func(s slots) string {
		first, last := s[0].Time, s.last().Time
		return fmt.Sprintf("%s, from %s to %s", last.Sub(first).Round(time.Second), first.Format(time.DateTime),
			last.Format(time.DateTime))
	}},
	{"held-out loss at last", func(s slots) string { return s.newest("held_out_loss") }},
	{"training loss at last", func(s slots) string { return s.newest("loss") }},
	{"trained on by the run", func(s slots) string { return tokens(s.last().RunTokens) }},
	{"trained on by this peer", func(s slots) string { return tokens(uint64(s.total("tokens"))) }},
	{"time in inner steps", func(s slots) string { return s.share("training_seconds") }},
	{"time stood still", func(s slots) string { return s.share("stalled_seconds") }},
	{"slots without this peer", func(s slots) string { return strconv.Itoa(len(s) - len(s.values("own_norm"))) }},
	{"members, at least and at most", func(s slots) string {
		members := s.values("members")
		return fmt.Sprintf("%.0f, %.0f", slices.Min(members), slices.Max(members))
	}},
	{"sent; received", func(s slots) string {
		return humanize.Bytes(uint64(s.total("bytes_sent"))) + "; " + humanize.Bytes(uint64(s.total("bytes_received")))
	}},
	{"state root at last", func(s slots) string { return s.last().StateRoot.String() }},
}

func (s slots) last() p2pdiloco.SlotMetrics { return s[len(s)-1] }

func (s slots) total(name string) (sum float64) {
	for _, v := range s.values(name) {
		sum += v
	}
	return sum
}

// newest is the newest value that is known.
func (s slots) newest(name string) string {
	known := s.values(name)
	if len(known) == 0 {
		return notMeasured
	}
	return strconv.FormatFloat(known[len(known)-1], 'g', 5, 64)
}

// share is how much of the time something has taken.
func (s slots) share(name string) string {
	all := s.total("seconds")
	if all <= 0 {
		return notMeasured
	}
	return fmt.Sprintf("%.1f%%", 100*s.total(name)/all)
}

const notMeasured = "not measured"

func tokens(n uint64) string { return humanize.Comma(int64(n)) + " tokens or samples" }

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
