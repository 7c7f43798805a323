package chain

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// forgery is a past of a run that one key founded, with records and a summary of its own making: it
// signs what they say, whatever that is.
type forgery struct {
	w       *signedWorld
	past    wire.Past
	commits []wire.Commit
}

// forgedRun is a run with a trust, a bound on weights, and a kind of record that names the summary.
type forgedRun struct {
	byzantine bool
	ratio     uint64
	last      slot.Kind
}

var forgedRuns = []forgedRun{{false, 0, slot.Members}, {true, 8, slot.Step}}

func (run forgedRun) rules() Rules {
	rules := signedRules(run.byzantine, 16)
	rules.MaxWeightRatio = run.ratio
	return rules
}

// forge makes a past of the form of an honest one.
func (run forgedRun) forge(t testing.TB, members int) forgery {
	t.Helper()
	rules, last := run.rules(), run.last
	w := newSignedWorld(rules)
	if members > 1 {
		w.churn(28, members, 12, func() {})
	}
	for w.OpenSlot() <= 28 {
		w.step()
	}
	for (w.Height()+1)%rules.SummaryEvery != 0 {
		w.step()
	}
	if last == slot.Members {
		w.members()
	}
	for range MaxSiblingAge + 1 {
		w.step()
	}
	if _, ok := w.Prune(0); !ok {
		t.Fatal("not pruned")
	}
	p := *w.Past()
	f := forgery{w, p, slices.Clone(w.Commits()[:p.Height+1-p.Floor])}
	if k := f.commits[len(f.commits)-1].Record.Kind; k != last {
		t.Fatalf("the last record is a %s", k)
	}
	return f
}

// seal links and signs what the forgery says now.
func (f forgery) seal() forgery {
	f.commits = slices.Clone(f.commits)
	for i := range f.commits[1:] {
		f.commits[i+1].Record.Prev = f.commits[i].Record.Hash()
	}
	last := &f.commits[len(f.commits)-1]
	last.Record.Summary = summaryHash(f.past.Summary)
	last.Certificate = slot.Certificate{Vote: slot.Vote{
		Ref: slot.Ref{Height: last.Record.Height, Prev: last.Record.Prev}, Hash: last.Record.Hash(),
	}}
	for _, m := range f.commits[len(f.commits)-2].Record.Electors() {
		last.Certificate.Signatures = append(last.Certificate.Signatures, slot.Signature{Peer: m.Peer})
	}
	return f
}

// open opens the forgery, and goes on from there as whoever takes it for the run's chain does.
func (f forgery) open() error {
	c, err := Open(f.w.rules, slot.Root{}, f.past, f.commits, trusting)
	if err != nil {
		return err
	}
	for _, p := range f.w.peers {
		c.Parts(p)
	}
	c.Pace().All(c.OpenSlot(), c.Members())
	c.Newcomers().Room()
	c.Provisional()
	return c.UpTo(c.Start()).Extend(c.Commit(c.Height()), trusting)
}

// within fails if what is done takes long, or ends in a panic.
func within(t *testing.T, limit time.Duration, what string, do func()) {
	t.Helper()
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		do()
	}()
	select {
	case p := <-done:
		if p != nil {
			t.Fatalf("%s: %v", what, p)
		}
	case <-time.After(limit):
		t.Fatalf("%s: it does not end", what)
	}
}

// Whoever founds a run of its own signs what it likes, so no number of a summary is taken for
// given. Without the checks one such past ended every peer that was shown it: by an index out of
// range where the newest step is said to be at another height, by a loop that takes all memory
// where the first slot with shares is.
func TestOpenRefusesAForgersSummary(t *testing.T) {
	for _, c := range forgedRuns {
		f := c.forge(t, 1)
		if err := f.seal().open(); err != nil {
			t.Fatalf("%s: unchanged: %v", c.last, err)
		}
		honest := f.past.Summary
		for at := 0; at < len(honest)-7; at += testlevel.Choose(8, 5, 1) {
			for _, v := range []uint64{0, 1, 1 << 40, 1<<64 - 1} {
				f.past.Summary = withNumber(honest, at, v)
				within(t, 10*time.Second, fmt.Sprintf("a run that ends in a %s record: %d at byte %d", c.last, v, at),
					func() { _ = f.seal().open() })
			}
		}
	}
}

// Whatever a link says, it is refused or followed: a difference may lead anywhere.
func TestOpenTakesAnyLink(t *testing.T) {
	for _, c := range forgedRuns {
		f := c.forge(t, 3)
		honest := f.past.Links
		for _, i := range []int{0, 2} { // the founding, and a link whose lists are changed
			l := honest[i]
			for at := range len(l) - 7 {
				for _, v := range []uint64{0, 1<<64 - 1} {
					f.past.Links = slices.Clone(honest)
					f.past.Links[i] = withNumber(l, at, v)
					what := fmt.Sprintf("%d at byte %d of link %d", v, at, i)
					within(t, 10*time.Second, what, func() { _ = f.open() })
				}
			}
		}
	}
}

// Links that verify no more are refused by name. The signatures hold, so nothing else does.
func TestOpenNamesWhatIsWrongWithALink(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(l *wire.Link, before slot.Record)
	}{
		{"1 of 3 voters signed", func(l *wire.Link, _ slot.Record) {
			l.Certificate.Signatures = l.Certificate.Signatures[:1]
		}},
		{"that changes nothing", func(l *wire.Link, before slot.Record) { l.Head.Record.Members = before.Members }},
		{"too few of the electors before", func(l *wire.Link, _ slot.Record) {
			for i := range l.Head.Record.Members {
				l.Head.Record.Members[i].Incarnation++
			}
		}},
		{"a link at height 6 after one at height 6", func(l *wire.Link, before slot.Record) {
			l.Head.Record.Height = before.Height
		}},
	} {
		f := forgedRuns[0].forge(t, 3)
		links := readLinks(t, f.w.rules.Run, f.past)
		i := slices.IndexFunc(links, func(l wire.Link) bool { return len(l.Head.Record.Members) == 3 }) + 1
		c.change(&links[i], links[i-1].Head.Record)
		f.past.Links = appendLinks(f.w.rules.Run, links)
		if err := f.open(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, not %q", err, c.want)
		}
	}
	f := forgedRuns[0].forge(t, 3)
	f.past.Links = slices.Delete(f.past.Links, 1, 2) // the one with which the second member came
	if err := f.open(); !errors.Is(err, canonical.ErrMalformed) {
		t.Errorf("a link after another one than that before it: %v", err)
	}
}

func withNumber(b []byte, at int, v uint64) []byte {
	b = slices.Clone(b)
	binary.BigEndian.PutUint64(b[at:], v)
	return b
}

// Numbers that lead to no panic at once are refused, too, where they are not what the records say.
func TestOpenRefusesWhatRecordsDoNotLeadTo(t *testing.T) {
	for _, c := range forgedRuns {
		f := c.forge(t, 3)
		honest := f.past.Summary
		for name, change := range map[string]func(*state){
			"founding":           func(s *state) { s.founding[0]++ },
			"branch":             func(s *state) { s.branch[0]++ },
			"work of the step":   func(s *state) { s.stepWork++ },
			"newest step":        func(s *state) { s.stepHeight-- },
			"a step above":       func(s *state) { s.stepHeight += 40 },
			"shared later":       func(s *state) { s.shared += 1 << 40 },
			"a contribution":     func(s *state) { clear(s.spent) },
			"one of later":       func(s *state) { s.spent["p"] = spending{1, 1 << 40} },
			"an older one":       func(s *state) { s.spent["p"] = spending{1, 2} },
			"no member ever":     func(s *state) { clear(s.access.ever) },
			"a removal above":    func(s *state) { s.access.removed["p"] = Removal{1 << 40, s.founding} },
			"turns":              func(s *state) { s.access.turns["p"] = 1 << 40 },
			"another secret":     func(s *state) { s.access.key[0]++ },
			"no secret":          func(s *state) { clear(s.access.keys) },
			"nobody contributed": func(s *state) { clear(s.newcomers.proven) },
			"newcomers":          func(s *state) { s.newcomers.quota++ },
			"newcomers listed":   func(s *state) { s.newcomers.admitted++ },
			"another elector":    func(s *state) { s.electors = slices.Repeat(s.electors, 2) },
			"a fork": func(s *state) {
				s.provisional = []Provisional{{Height: 9, Electors: s.electors}}
			},
			"before the first slot":  func(s *state) { s.seating.started = false },
			"a seat of later":        func(s *state) { s.seating.replaced = 1 << 40 },
			"an elector left out":    func(s *state) { s.seating.leftOut = s.electors },
			"parts without end":      func(s *state) { s.assigner.next = 1 << 63 },
			"a later first slot":     func(s *state) { s.assigner.first++ },
			"an earlier first slot":  func(s *state) { s.assigner.first-- },
			"slots without end":      func(s *state) { s.assigner.shares = append(s.assigner.shares, nil) },
			"a part of nobody":       func(s *state) { s.assigner.back = []piece{{part: s.assigner.next}} },
			"a part that is done":    func(s *state) { s.assigner.back = []piece{{done: 1 << 40}} },
			"parts in another order": func(s *state) { s.assigner.back = []piece{{part: 1}, {part: 0}} },
			"shares in another order": func(s *state) {
				newest := &s.assigner.shares[len(s.assigner.shares)-1]
				*newest = append(*newest, share{peer: ""})
			},
		} {
			s, err := parseSummary(f.w.rules, honest, maxEntries)
			if err != nil {
				t.Fatal(err)
			}
			change(&s)
			f.past.Summary = s.append(nil)
			if err := f.seal().open(); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Neither is what the records of the window say, where other records are of another run, go on from
// others, or have numbers that no run gets to.
func TestOpenRefusesAForgersRecords(t *testing.T) {
	const far = 1 << 60
	for name, change := range map[string]func(*forgery, *state, *slot.Record){
		"another run": func(_ *forgery, _ *state, r *slot.Record) { r.Run[0]++ },
		"a slot twice": func(f *forgery, s *state, _ *slot.Record) {
			for i := range f.commits[4:] {
				f.commits[4+i].Record.Slot--
			}
			s.assigner.first--
			for p, v := range s.spent {
				s.spent[p] = spending{v.seq, v.slot - 1}
			}
		},
		"less work":         func(_ *forgery, _ *state, r *slot.Record) { r.Work = 0 },
		"no contributions":  func(_ *forgery, _ *state, r *slot.Record) { r.Contributions, r.Segments = nil, nil },
		"nobody decides":    func(_ *forgery, _ *state, r *slot.Record) { r.Members = nil },
		"a link of its own": func(_ *forgery, _ *state, r *slot.Record) { r.Members[0].Seat++ },
		"slots that no run gets to": func(f *forgery, s *state, _ *slot.Record) {
			for i := range f.commits {
				f.commits[i].Record.Slot += far
			}
			s.assigner.first += far
			for p, v := range s.spent {
				s.spent[p] = spending{v.seq, v.slot + far}
			}
		},
		"heights that no run gets to": func(f *forgery, s *state, _ *slot.Record) {
			for i := range f.commits {
				f.commits[i].Record.Height += far
			}
			f.past.Floor, f.past.Height, s.height = f.past.Floor+far, f.past.Height+far, s.height+far
			s.stepHeight, s.shared = s.stepHeight+far, s.shared+far
		},
	} {
		for _, c := range forgedRuns {
			f := c.forge(t, 1)
			f.commits = slices.Clone(f.commits)
			s, err := parseSummary(f.w.rules, f.past.Summary, maxEntries)
			if err != nil {
				t.Fatal(err)
			}
			r := &f.commits[4].Record
			r.Members = slices.Clone(r.Members)
			change(&f, &s, r)
			f.past.Summary = s.append(nil)
			within(t, 10*time.Second, name, func() {
				if err := f.seal().open(); !errors.Is(err, ErrInvalid) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
}

// FuzzForgedPast changes any numbers of a summary, of a link, and of the records after the floor,
// and has all of it signed. Nothing ends in a panic.
func FuzzForgedPast(f *testing.F) {
	var runs []forgery
	for _, c := range forgedRuns {
		runs = append(runs, c.forge(f, 3))
	}
	f.Add(false, uint16(0), uint16(72), uint64(1<<40), uint16(0), uint64(0), uint16(0), uint16(0), uint64(0))
	f.Add(true, uint16(3), uint16(73), uint64(1<<64-3), uint16(400), uint64(1<<40), uint16(2), uint16(90),
		uint64(1<<48))
	f.Fuzz(func(_ *testing.T, second bool, record, at uint16, v uint64, stated uint16, w uint64, link, in uint16,
		x uint64,
	) {
		g := runs[0]
		if second {
			g = runs[1]
		}
		g.past.Summary = withNumber(g.past.Summary, int(stated)%(len(g.past.Summary)-7), w)
		if link > 0 { // else all links are good, and what is said beside them is judged
			g.past.Links = slices.Clone(g.past.Links)
			l := &g.past.Links[int(link)%len(g.past.Links)]
			*l = withNumber(*l, int(in)%(len(*l)-7), x)
		}
		g.commits = slices.Clone(g.commits)
		r := &g.commits[int(record)%len(g.commits)].Record
		b := r.Append(nil)
		reader := canonical.NewReader(withNumber(b, int(at)%(len(b)-7), v))
		if changed := slot.ReadRecord(reader); reader.Done() == nil {
			*r = changed
		}
		_ = g.seal().open()
	})
}

// A stranger shows the links of the run with a window of its own making, one slot with very many
// records that nobody has signed. It costs no more than to read them.
func TestALongSlotBelowASummaryIsReadOnce(t *testing.T) {
	f := forgedRuns[1].forge(t, 4)
	s, err := parseSummary(f.w.rules, f.past.Summary, maxEntries)
	if err != nil {
		t.Fatal(err)
	}
	const n = 20_000 // copying what is there for each would take a minute
	p := f.past
	p.Height = p.Floor + n
	s.height = p.Height
	p.Summary = s.append(nil)
	commits, prev := make([]wire.Commit, n+1), slot.Root{1}
	for i := range commits {
		r := slot.Record{Height: p.Floor + uint64(i) + 1, Kind: slot.Members, Prev: prev}
		prev, commits[i].Record = r.Hash(), r
	}
	within(t, 20*time.Second, "a window of one slot", func() {
		if _, err := Open(f.w.rules, slot.Root{}, p, commits, verifyEd25519); !errors.Is(err, ErrInvalid) {
			t.Errorf("it is opened with %v", err)
		}
	})
}
