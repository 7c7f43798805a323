package document

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/template"
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

// summary is the facts about some peers.
type summary struct {
	Peers []string
	Facts []row
}

// row is a fact, and what it is of each peer.
type row struct {
	What string
	Of   []string
}

func summaryOf(peers []Peer) (s summary) {
	for _, p := range peers {
		s.Peers = append(s.Peers, p.Name)
	}
	for _, f := range facts {
		r := row{What: f.what}
		for _, p := range peers {
			r.Of = append(r.Of, f.of(p.Slots))
		}
		s.Facts = append(s.Facts, r)
	}
	return s
}

// table writes the summary as a LaTeX tabular.
func table(w io.Writer, peers []Peer) error { return tabular.Execute(w, summaryOf(peers)) }

var tabular = template.Must(template.New("table").Funcs(template.FuncMap{"latex": latex}).Parse(
	`% slots of a p2pdiloco run
\begin{tabular}{l{{range .Peers}}r{{end}}}
{{range .Peers}} & {{latex .}}{{end}} \\
\hline
{{range .Facts}}{{latex .What}}{{range .Of}} & {{latex .}}{{end}} \\
{{end}}\end{tabular}
`))

// latex escapes text.
func latex(s string) string {
	return strings.NewReplacer(
		`\`, `\textbackslash{}`, `&`, `\&`, `%`, `\%`, `$`, `\$`, `#`, `\#`, `_`, `\_`, `{`, `\{`, `}`, `\}`,
		`~`, `\textasciitilde{}`, `^`, `\textasciicircum{}`, "\n", " ",
	).Replace(s)
}
