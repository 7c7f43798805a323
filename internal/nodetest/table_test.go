package nodetest

import (
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"text/tabwriter"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
)

// row is an attack by a number of peers in a mode, over all seeds.
type row struct {
	Mode    string
	Attack  string
	Bad     int
	Over    float64 // of the same seed, a mean; 0.01: 1%
	Beyond  float64 // where those that are evicted just leave
	Left    int     // of these there were so many
	Named   int     // bad peers of all seeds
	Of      int     // those that have lied
	After   uint64  // at most
	Evicted int
	Missed  []string // goals
	Trials  []trial
}

// honest are the runs without bad peers in a mode, of eight peers or of the founders alone.
type honest struct {
	Mode   string
	Alone  int     // how many; 0: eight peers
	Loss   float64 // mean over seeds
	Spread float64 // the greatest over the least; 0.01: 1%
	Trials []trial
}

type result struct {
	Start  float64 // of the common start
	Slots  uint64
	Honest []honest
	Rows   []row
}

// The goal for every attack that can be told from honest values: a bad peer is named within so many
// slots of its first lie, or by so many of its contributions that steps have taken. A newcomer
// takes turns with others, so it may have had fewer in these slots. Package conduct judges five
// together.
const (
	namedWithin = 10 // slots
	judged      = 5  // contributions
)

// leastSpread is taken where the seeds differ by less, or there is one: on a machine with other
// work four runs of one attack, with one seed, differed from those that leave by -.08 to .24%.
const leastSpread = 0.005

// TestTable plays attacks beside honest runs, and prints the table. It fails where a run does not
// end well, where an honest peer is accused, also in a run of honest peers alone, where nobody
// lies, where a lie that can be proven does not evict the liar, where fewer bad peers are named in
// time than must be, where owners do not mark most of what more than f peers send that point the
// other way, and where bad owners or auditors cost more than the seeds differ by: of a run with as
// much data, which those that are evicted here just leave.
func TestTable(t *testing.T) {
	if testing.Short() {
		t.Skip("whole nodes that train")
	}
	cfg, err := fromFlags()
	if err != nil {
		t.Fatal(err)
	}
	sc := openSchool(t, cfg)
	r := result{Start: sc.loss, Slots: cfg.slots}
	for _, mode := range cfg.modes {
		r.measure(t, cfg, sc, mode)
	}
	r.print(os.Stdout)
	for _, w := range r.Rows {
		for _, m := range w.Missed {
			t.Errorf("%s, %s by %d: %s", w.Mode, w.Attack, w.Bad, m)
		}
	}
	for _, h := range r.Honest {
		for _, x := range h.Trials {
			for _, said := range x.Accused {
				t.Errorf("%s, all honest, seed %d: an honest peer was accused: %s", h.Mode, x.Seed, said)
			}
		}
	}
}

// measure plays all that was asked for in a mode.
func (r *result) measure(t *testing.T, cfg config, sc *school, mode string) {
	base, leaving := honest{Mode: mode, Alone: cfg.founders}, map[string]trial{}
	for seed := range max(cfg.seeds, cfg.honest) {
		if got, ok := play(t, cfg, sc, attack{kind: "none"}, 0, mode, seed+1); ok {
			base.Trials = append(base.Trials, got)
		}
	}
	base.sumUp()
	t.Logf("%s, honest, founders alone %d: %+v", mode, base.Alone, base.Trials)
	r.Honest = append(r.Honest, base)
	for _, a := range cfg.attacks {
		for _, bad := range cfg.bad {
			w := row{Mode: mode, Attack: a.kind, Bad: bad}
			for seed := range cfg.seeds {
				if got, ok := play(t, cfg, sc, a, bad, mode, seed+1); ok {
					if got.Evicted == bad && cfg.founders == 0 {
						got.leave(t, cfg, sc, mode, leaving)
					}
					w.Trials = append(w.Trials, got)
				}
			}
			w.sumUp(a, base)
			r.Rows = append(r.Rows, w)
			t.Logf("%s, %s by %d: %+.2f%%, %s, %d of %d named after %d slots, %d evicted, missed %q", mode, a.kind, bad,
				100*w.Over, w.beyond(), w.Named, w.Of, w.After, w.Evicted, w.Missed)
		}
	}
}

// leave measures what the missing data costs: the same peers leave a run of the same seed after the
// last slot that has taken their contributions. Runs that are known are not played again.
func (r *trial) leave(t *testing.T, cfg config, sc *school, mode string, known map[string]trial) {
	name := fmt.Sprint(r.Seed, r.Last)
	same, ok := known[name]
	if !ok {
		same, _ = play(t, cfg, sc, attack{leave: r.Last}, len(r.Last), mode, r.Seed)
		known[name] = same
	}
	r.Left = same.Loss
	r.Accused = append(r.Accused, same.Accused...)
	most := min(liars, len(r.Last)) // the others join a run under way: who is taken first is chance
	if !slices.Equal(same.Last[:min(most, len(same.Last))], r.Last[:most]) {
		t.Errorf("seed %d: peers left after slots %v, and not after %v", r.Seed, same.Last, r.Last)
	}
}

func (h *honest) sumUp() {
	least, most, sum := infinite, 0.0, 0.0
	for _, x := range h.Trials {
		least, most, sum = min(least, x.Loss), max(most, x.Loss), sum+x.Loss
	}
	if len(h.Trials) > 0 {
		h.Loss, h.Spread = sum/float64(len(h.Trials)), most/least-1
	}
}

// sumUp says what the seeds give together, and which goals were missed.
func (w *row) sumUp(a attack, base honest) {
	sum, pairs, beyond := 0.0, 0.0, 0.0
	for _, x := range w.Trials {
		if x.Left > 0 {
			w.Left, beyond = w.Left+1, beyond+x.Loss/x.Left-1
		}
		for _, same := range base.Trials {
			if same.Seed == x.Seed {
				sum, pairs = sum+x.Loss/same.Loss-1, pairs+1
			}
		}
		w.Named, w.Of, w.Evicted = w.Named+x.Named, w.Of+x.Lied, w.Evicted+x.Evicted
		w.After = max(w.After, x.After)
		for _, said := range x.Accused {
			w.Missed = append(w.Missed, "an honest peer was accused: "+said)
		}
	}
	if pairs == 0 {
		return // the runs have failed
	}
	w.Over = sum / pairs
	cost, what := w.Over, "honest"
	if w.Left > 0 {
		w.Beyond = beyond / float64(w.Left)
		cost, what = w.Beyond, "leaving"
	}
	kind, _ := hostile.Find(a.kind)
	if w.Of == 0 {
		w.Missed = append(w.Missed, "nobody has lied: more slots are needed")
	}
	if kind.Evicted && w.Evicted < w.Of {
		w.Missed = append(w.Missed, fmt.Sprintf("evicted %d of %d", w.Evicted, w.Of))
	}
	most := max(base.Spread, leastSpread)
	if w.Bad > liars { // the third joins at a slot of its own: the two runs differ as two seeds do
		most *= 2
	}
	if a.free && cost > most {
		w.Missed = append(w.Missed, fmt.Sprintf("it costs %.2f%% more than %s peers, whose seeds differ by %.2f%%",
			100*cost, what, 100*base.Spread))
	}
	w.Missed = append(w.Missed, w.late(a)...)
}

// late says of whom it was not said in time what it does, where it is more than need not be named.
func (w *row) late(a attack) (missed []string) {
	for _, x := range w.Trials {
		may := 0
		if a.least != nil {
			least := a.least(w.Bad)
			if may = w.Bad - least; x.Named < least {
				missed = append(missed, fmt.Sprintf("seed %d: %d are named, and %d must be", x.Seed, x.Named, least))
			}
		}
		if len(x.Late) <= may {
			continue
		}
		for _, why := range x.Late {
			missed = append(missed, fmt.Sprintf("seed %d: %s", x.Seed, why))
		}
	}
	return missed
}

// beyond is the loss over that of leaving peers, in words.
func (w row) beyond() string {
	if w.Left == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.2f%%", 100*w.Beyond)
}

func (r *result) print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer table.Flush() //nolint:errcheck // nobody could be told
	fmt.Fprintf(table, "common start: held-out loss %.4f; %d slots, attacks from slot %d on\n", r.Start, r.Slots,
		firstLie)
	for _, h := range r.Honest {
		who := "eight honest peers"
		if h.Alone > 0 {
			who = fmt.Sprintf("%d founders alone", h.Alone)
		}
		fmt.Fprintf(table, "%s, %s: held-out loss %.4f, seeds' spread %.2f%%\n", h.Mode, who, h.Loss,
			100*h.Spread)
		for _, x := range h.Trials {
			for _, said := range x.Accused {
				fmt.Fprintf(table, "seed %d: an honest peer was accused: %s\n", x.Seed, said)
			}
		}
	}
	fmt.Fprintln(table, "mode\tattack\tbad\tloss over honest\tover leaving\tnamed\tafter slots\tevicted"+
		"\tgoals")
	for _, w := range r.Rows {
		goals := "hold"
		if len(w.Missed) > 0 {
			goals = "MISSED: " + w.Missed[0]
		}
		after := fmt.Sprint(w.After)
		if w.Named == 0 {
			after = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%+.2f%%\t%s\t%d of %d\t%s\t%d\t%s\n", w.Mode, w.Attack, w.Bad,
			100*w.Over, w.beyond(), w.Named, w.Of, after, w.Evicted, goals)
	}
}
