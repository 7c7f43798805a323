package attacks

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"text/tabwriter"
)

// row is an attack by a number of peers in a mode, over all seeds.
type row struct {
	Mode    string   `json:"mode"`
	Attack  string   `json:"attack"`
	Bad     int      `json:"bad"`
	Over    float64  `json:"over_honest"`       // of the same seed, a mean; 0.01: 1%
	Named   int      `json:"named"`             // bad peers of all seeds
	Of      int      `json:"named_of"`          // those that have lied
	After   uint64   `json:"named_after_slots"` // at most
	Evicted int      `json:"evicted"`
	Missed  []string `json:"missed"`         // goals
	Open    string   `json:"open,omitempty"` // why they are known to be missed
	Liars   marks    `json:"bad_marks"`
	Honest  marks    `json:"honest_marks"`
	Trials  []trial  `json:"trials"`
}

// honest are the runs without bad peers in a mode, of eight peers or of the founders alone.
type honest struct {
	Mode   string  `json:"mode"`
	Alone  int     `json:"founders_alone"` // how many; 0: eight peers
	Loss   float64 `json:"loss"`           // mean over seeds
	Spread float64 `json:"spread"`         // the greatest over the least; 0.01: 1%
	Marks  marks   `json:"marks"`
	Trials []trial `json:"trials"`
}

type result struct {
	Start  float64  `json:"start_loss"` // of the common start
	Slots  uint64   `json:"slots"`
	Honest []honest `json:"honest"`
	Rows   []row    `json:"rows"`
}

// The goal for every attack that can be told from honest values: within so many slots of its first
// lie a bad peer is named, if steps have taken so many of its contributions. A newcomer takes turns
// with others, so it may have had fewer. Package conduct judges five together.
const (
	namedWithin = 10 // slots
	judged      = 5  // contributions
)

// TestTable plays attacks beside honest runs, and prints the table. But for attacks that are known
// to be open, it fails where a run does not end well, where an honest peer is accused, also in a
// run of honest peers alone, where nobody lies, where a lie that can be proven does not evict the
// liar, where a bad peer is not named that can be told, or too late, and where bad owners cost
// anything.
//
// Of more than f peers that send the opposite, one at least must be named: with so many against
// them the others have too little in common for cosines (docs/operations/trust.md).
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
	if cfg.json {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("the result:\n%s\n", b)
	}
	r.print(os.Stdout)
	for _, w := range r.Rows {
		for _, m := range w.Missed {
			t.Logf("%s, %s by %d: %s", w.Mode, w.Attack, w.Bad, m)
			if w.Open == "" {
				t.Fail()
			}
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
	bases := map[int]honest{}
	for _, a := range cfg.attacks {
		if _, ok := bases[a.founders]; !ok {
			h := honest{Mode: mode, Alone: a.founders}
			for seed := range max(cfg.seeds, cfg.honest) {
				if got, ok := play(t, cfg, sc, attack{name: "none", founders: a.founders}, 0, mode, seed+1); ok {
					h.Trials = append(h.Trials, got)
				}
			}
			h.sumUp()
			t.Logf("%s, honest, founders alone %d: %+v", mode, h.Alone, h.Trials)
			bases[a.founders] = h
			r.Honest = append(r.Honest, h)
		}
		for _, bad := range cfg.bad {
			if a.founders > 0 {
				bad = strangers
			}
			w := row{Mode: mode, Attack: a.name, Bad: bad, Open: a.open}
			for seed := range cfg.seeds {
				if got, ok := play(t, cfg, sc, a, bad, mode, seed+1); ok {
					w.Trials = append(w.Trials, got)
				}
			}
			w.sumUp(a, bases[a.founders])
			r.Rows = append(r.Rows, w)
			t.Logf("%s, %s by %d: %+.2f%%, %d of %d named after %d slots, %d evicted, missed %q", mode, a.name, bad,
				100*w.Over, w.Named, w.Of, w.After, w.Evicted, w.Missed)
			if a.founders > 0 {
				break
			}
		}
	}
}

func (h *honest) sumUp() {
	least, most, sum := infinite, 0.0, 0.0
	for _, x := range h.Trials {
		least, most, sum = min(least, x.Loss), max(most, x.Loss), sum+x.Loss
		h.Marks.add(x.Honest)
	}
	if len(h.Trials) > 0 {
		h.Loss, h.Spread = sum/float64(len(h.Trials)), most/least-1
	}
}

// sumUp says what the seeds give together, and which goals were missed.
func (w *row) sumUp(a attack, base honest) {
	sum, pairs := 0.0, 0.0
	for _, x := range w.Trials {
		for _, same := range base.Trials {
			if same.Seed == x.Seed {
				sum, pairs = sum+x.Loss/same.Loss-1, pairs+1
			}
		}
		w.Named, w.Of, w.Evicted = w.Named+x.Named, w.Of+x.Lied, w.Evicted+x.Evicted
		w.After = max(w.After, x.After)
		w.Liars.add(x.Bad)
		w.Honest.add(x.Honest)
		for _, said := range x.Accused {
			w.Missed = append(w.Missed, "an honest peer was accused: "+said)
		}
	}
	if pairs == 0 {
		return // the runs have failed
	}
	w.Over = sum / pairs
	if w.Of == 0 {
		w.Missed = append(w.Missed, "nobody has lied: more slots are needed")
	}
	if a.proven && w.Evicted < w.Of {
		w.Missed = append(w.Missed, fmt.Sprintf("evicted %d of %d", w.Evicted, w.Of))
	}
	if a.owner && w.Over > max(base.Spread, leastSpread*float64(w.Bad)) {
		w.Missed = append(w.Missed, fmt.Sprintf("bad owners cost %.2f%%", 100*w.Over))
	}
	if !a.unnamed {
		w.Missed = append(w.Missed, w.late(a)...)
	}
}

// late says of whom it was not said in time what it does.
func (w *row) late(a attack) (missed []string) {
	for _, x := range w.Trials {
		if a.opposite && w.Bad > liars && x.Named > 0 {
			continue
		}
		if x.After > namedWithin {
			missed = append(missed, fmt.Sprintf("seed %d: named after %d slots, not within %d", x.Seed, x.After, namedWithin))
		}
		for _, n := range x.Unseen {
			if n >= judged {
				missed = append(missed, fmt.Sprintf("seed %d: a bad peer is not named, of %d contributions", x.Seed, n))
			}
		}
	}
	return missed
}

// leastSpread, for each bad peer, is taken for the seeds' spread where few of them happen to lie
// closer together: the data of an owner that is evicted is missing from then on.
const leastSpread = 0.01

func (r *result) print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer table.Flush() //nolint:errcheck // nobody could be told
	fmt.Fprintf(table, "common start: held-out loss %.4f; %d slots, attacks from slot %d on\n", r.Start, r.Slots, firstLie)
	for _, h := range r.Honest {
		who := "eight honest peers"
		if h.Alone > 0 {
			who = fmt.Sprintf("%d founders alone", h.Alone)
		}
		fmt.Fprintf(table, "%s, %s: held-out loss %.4f, seeds' spread %.2f%%, marked: %v\n", h.Mode, who, h.Loss,
			100*h.Spread, h.Marks)
		for _, x := range h.Trials {
			for _, said := range x.Accused {
				fmt.Fprintf(table, "seed %d: an honest peer was accused: %s\n", x.Seed, said)
			}
		}
	}
	fmt.Fprintln(table, "mode\tattack\tbad\tloss over honest\tnamed\tafter slots\tevicted\tmarked, bad\tmarked, honest\tgoals")
	for _, w := range r.Rows {
		goals := "hold"
		if len(w.Missed) > 0 {
			goals = "MISSED: " + w.Missed[0]
		}
		after := fmt.Sprint(w.After)
		if w.Named == 0 {
			after = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%+.2f%%\t%d of %d\t%s\t%d\t%v\t%v\t%s\n", w.Mode, w.Attack, w.Bad, 100*w.Over, w.Named,
			w.Of, after, w.Evicted, w.Liars, w.Honest, goals)
	}
}
