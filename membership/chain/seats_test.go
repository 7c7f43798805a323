package chain

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

const seatElements = 8

func seatRules(start int) Rules {
	return Rules{
		Run: slot.Hash([]byte("seats")), StartPeers: start, MinPeers: 1, Byzantine: true,
		Fragments: []uint64{seatElements},
	}
}

// world is a chain of which a test writes the records.
type world struct {
	t testing.TB
	*Chain
}

// found begins a chain with members, one a letter. Each number after a letter is its credit; a
// letter in upper case has a seat: "A32 b8".
func found(t testing.TB, rules Rules, members string) world {
	w := world{t, New(rules, slot.Root{})}
	r := slot.Record{Run: rules.Run, Height: 1, Kind: slot.Fork, Prev: w.TipHash()}
	r.Members = parseMembers(t, members)
	w.Push(wire.Commit{Record: r})
	return w
}

func parseMembers(t testing.TB, text string) (ms []slot.Member) {
	for f := range strings.FieldsSeq(text) {
		m := slot.Member{Peer: slot.PeerID(strings.ToLower(f[:1])), Incarnation: 1, Since: 1}
		if _, err := fmt.Sscanf(f[1:], "%d", &m.Credit); err != nil {
			t.Fatal(err)
		}
		if f[0] < 'a' {
			m.Seat = 1
		}
		ms = append(ms, m)
	}
	return ms
}

func showMembers(r slot.Record) string {
	var out []string
	for _, m := range r.Members {
		name := string(m.Peer)
		if m.Elects() {
			name = strings.ToUpper(name)
		}
		out = append(out, fmt.Sprintf("%s%d", name, m.Credit))
	}
	for _, m := range r.Absent {
		out = append(out, fmt.Sprintf("(%s%d)", string(m.Peer), m.Credit))
	}
	for _, p := range r.Evicted {
		out = append(out, "!"+string(p))
	}
	return strings.Join(out, " ")
}

// record is the next one, of a step if it has contributors. Of all their contributions the sets
// list the first share elements only.
func (w world) record(contributors string, share uint64) slot.Record {
	r := slot.Record{
		Run: w.Rules().Run, Height: w.Height() + 1, Kind: slot.Members, Prev: w.TipHash(), Slot: w.Tip().Slot,
		Work: w.Tip().Work,
	}
	if contributors == "" {
		return r
	}
	r.Kind, r.Slot = slot.Step, r.Slot+1
	all := slot.NewBitmap(len(contributors))
	for i, p := range contributors {
		all.Set(i)
		r.Contributions = append(r.Contributions, slot.Offer{
			Peer: slot.PeerID(p), Slot: r.Slot, Base: r.Slot - 1, Seq: w.SpentSeq(slot.PeerID(p)) + 1, Weight: 1,
		})
	}
	r.Work = w.WorkAfter(slot.Step, r.Contributions)
	first := slot.NewBitmap(len(contributors)) // the others' sets have the first contributor alone
	first.Set(0)
	r.Segments = []slot.Segment{{Range: slot.Range{End: seatElements}, Contributors: all}}
	if share < seatElements {
		r.Segments = []slot.Segment{
			{Range: slot.Range{End: share}, Contributors: all},
			{Range: slot.Range{Begin: share, End: seatElements}, Contributors: first},
		}
	}
	return r
}

// listedAs returns members for a turnover: one a letter, in incarnation 1, or 2 with ' after it.
func listedAs(names string) (ms []slot.Member) {
	for _, p := range names {
		if p == '\'' {
			ms[len(ms)-1].Incarnation = 2
			continue
		}
		ms = append(ms, slot.Member{Peer: slot.PeerID(p), Incarnation: 1})
	}
	return ms
}

// turns is the turnover of members listed as for listedAs. The one in upper case gets a seat, and
// who is named after a ! is evicted.
func turns(text string) (t Turnover) {
	listed, evicted, _ := strings.Cut(text, "!")
	t.Listed = listedAs(strings.ToLower(listed))
	for _, p := range evicted {
		t.Evicted = append(t.Evicted, slot.PeerID(p))
	}
	if i := strings.IndexFunc(listed, unicode.IsUpper); i >= 0 {
		t.Seat = slot.PeerID(strings.ToLower(listed[i : i+1]))
	}
	return t
}

// list adds a record with such a turnover.
func (w world) list(r slot.Record, text string) string { return w.add(r, turns(text)) }

// stay adds a record that lists the same members as that before.
func (w world) stay(r slot.Record) string {
	var listed []slot.Member
	for _, m := range w.Members() {
		listed = append(listed, slot.Member{Peer: m.Peer, Incarnation: 1})
	}
	return w.add(r, Turnover{Listed: listed})
}

// add settles a record, checks it as any peer does, and appends it.
func (w world) add(r slot.Record, t Turnover) string {
	r = w.Settle(r, t)
	if err := w.Check(r, 0); err != nil {
		return err.Error()
	}
	w.Push(wire.Commit{Record: r})
	return showMembers(w.Tip())
}

func TestCreditsAndSeats(t *testing.T) {
	check := func(t *testing.T, from, got, want string) {
		t.Helper()
		if want == "" && !strings.Contains(got, ErrInvalid.Error()) || want != "" && got != want {
			t.Errorf("%s became %q, want %q", from, got, want)
		}
	}
	for name, c := range map[string]struct {
		from         string
		contributors string // "": a members record
		turns        string
		want         string // "": it is refused
	}{
		"each contribution counts":        {"A32 b0 c7", "ab", "abc", "A40 b8 c6"},
		"no more than there is":           {"A252 b0", "a", "ab", "A256 b0"},
		"members records cost none":       {"A32 b5", "", "ab", "A32 b5"},
		"a newcomer begins with 0":        {"A32", "", "ax", "A32 x0"},
		"the dropped stay absent":         {"A32 b5 c0", "", "a", "A32 (b5)"},
		"a seat is lost with a drop":      {"A32 B32 C32", "", "ab", "A32 B32 (c32)"},
		"its last contribution":           {"A32 b5", "ab", "a", "A40 (b13)"},
		"another life begins with 0":      {"A32 b40", "", "ab'", "A32 b0"},
		"evicted for good":                {"A32 b40", "", "a!b", "A32 !b"},
		"the evicted is listed":           {"A32 b40", "", "ab!b", ""},
		"one contribution for the second": {"A32 b0", "ab", "aB", "A40 B8"},
		"and not less":                    {"A32 b7", "", "aB", ""},
		"the second in a members record":  {"A32 b8", "", "aB", "A32 B8"},
		"for a newcomer":                  {"A32", "", "aX", ""},
		"for an elector":                  {"A32 B8", "", "aB", ""},
		"the third":                       {"A32 B32 c8", "", "abC", "A32 B32 C8"},
		"the fourth, too early":           {"A32 B32 C32 d31", "", "abcD", ""},
		"the fourth":                      {"A32 B32 C32 d32", "", "abcD", "A32 B32 C32 D32"},
		"the fifth, alone":                {"A32 B32 C32 D32 e99", "", "abcdE", ""},
		"the fifth, with two that wait": {
			"A32 B32 C32 D32 e32 f40 g32", "", "abcdefG", "A32 B32 C32 D32 e32 f40 G32",
		},
		"the fifth, with one that has too little": {"A32 B32 C32 D32 e32 f31 g32", "", "abcdefG", ""},
		"the fifth, with one that is dropped":     {"A32 B32 C32 D32 e32 f40 g32", "", "abcdeG", ""},
		"the seventh": {
			"A32 B32 C32 D32 E32 F32 g32", "", "abcdefG", "A32 B32 C32 D32 E32 F32 G32",
		},
		"with too little for the fifth":           {"A32 B32 C32 D32 e31 f31 g31", "", "abcdefG", ""},
		"as many electors lost as a quorum bears": {"A32 B32 C32 D32 E32 F32 G32 h32", "", "abcdeH", ""},
		"and two that wait": {
			"A32 B32 C32 D32 E32 F32 G32 h32 i32", "", "abcdeHi", "A32 B32 C32 D32 E32 H32 i32 (f32) (g32)",
		},
		"the fourth seat of four, with one contribution": {"A32 B32 C32 D32 e8", "", "abcE", ""},
		"the senior of two stays, and another":           {"A32 B32 c8", "", "bC", "B32 C8 (a32)"},
		"nobody stays":                                   {"A32 b8", "", "B", ""},
		"no elector":                                     {"A32 b8", "", "b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := found(t, seatRules(1), c.from)
			check(t, c.from, w.list(w.record(c.contributors, seatElements), c.turns), c.want)
		})
	}
	w := found(t, seatRules(1), "A32 b5")
	gone := turns("a")
	gone.Deleted = func(slot.Member) bool { return true }
	check(t, "a leaver", w.add(w.record("", 0), gone), "A32")
	// by the number of elements whose sets list both
	for share, want := range map[uint64]string{4: "A40 b13", 3: "A40 b4"} {
		w := found(t, seatRules(1), "A32 b5")
		check(t, fmt.Sprint(share), w.stay(w.record("ab", share)), want)
	}
	two := seatRules(1)
	two.MaxElectors = 2 // who gets a seat needs twice the least credit
	for from, want := range map[string]string{"A40 B32 c64": "A40 b32 C64", "A40 B32 c63": "", "A40 B0 c31": ""} {
		w := found(t, two, from)
		check(t, from, w.list(w.record("", 0), "abC"), want)
	}
}

// What no turnover leads to.
func TestWrongStandings(t *testing.T) {
	w := found(t, seatRules(1), "A32 B32 C32 d33")
	w.list(w.record("ab", seatElements), "abc") // d32 is absent
	w.list(w.record("ab", seatElements), "abce!yz")
	sound := w.Settle(w.record("abe", seatElements), turns("abce"))
	if err := w.Check(sound, 0); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*slot.Record){
		"more credit":         func(r *slot.Record) { r.Members[0].Credit++ },
		"less credit":         func(r *slot.Record) { r.Members[2].Credit-- },
		"an older seat":       func(r *slot.Record) { r.Members[1].Seat-- },
		"a seat of nothing":   func(r *slot.Record) { r.Members[3].Seat = 2 },
		"a seat that is gone": func(r *slot.Record) { r.Members[2].Seat = 0 },
		"another since":       func(r *slot.Record) { r.Members[3].Since-- },
		"two seats": func(r *slot.Record) {
			r.Members[2].Seat, r.Members[3].Seat = r.Height, r.Height
		},
		"more credit of an absent one": func(r *slot.Record) { r.Absent[0].Credit++ },
		"another absent one":           func(r *slot.Record) { r.Absent[0].Peer = "x" },
		"an absent one with a seat":    func(r *slot.Record) { r.Absent[0].Seat = 1 },
		"absent and listed": func(r *slot.Record) {
			r.Absent[0] = slot.Member{Peer: "c", Incarnation: 1, Since: 1, Credit: 30}
		},
		"an eviction undone":         func(r *slot.Record) { r.Evicted = r.Evicted[1:] },
		"evictions in another order": func(r *slot.Record) { slices.Reverse(r.Evicted) },
		"an evicted newcomer": func(r *slot.Record) {
			r.Members = append(r.Members, slot.Member{Peer: "y", Incarnation: 5, Since: r.Height})
		},
		"an evicted elector": func(r *slot.Record) { r.Evicted = append(r.Evicted, "c") },
	} {
		r := sound
		r.Members, r.Absent = slices.Clone(r.Members), slices.Clone(r.Absent)
		r.Evicted = slices.Clone(r.Evicted)
		spoil(&r)
		if err := w.Check(r, 0); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The oldest of many evicted keys fall out.
func TestEvictedKeys(t *testing.T) {
	w := found(t, seatRules(1), "A32")
	var keys []slot.PeerID
	for i := range slot.MaxEvicted {
		keys = append(keys, slot.PeerID(fmt.Sprintf("k%03d", i)))
	}
	w.add(w.record("", 0), Turnover{Listed: listedAs("a"), Evicted: keys})
	w.list(w.record("", 0), "a!xy")
	if got := w.Tip().Evicted; len(got) != slot.MaxEvicted || got[0] != "k002" || got[slot.MaxEvicted-1] != "y" {
		t.Errorf("%d keys, from %s to %s", len(got), got[0], got[len(got)-1])
	}
	listed := []slot.Member{{Peer: "a", Incarnation: 1}, {Peer: "k002"}}
	if got := w.add(w.record("", 0), Turnover{Listed: listed}); !strings.Contains(got, "evicted") {
		t.Error(got)
	}
}

// The first start_peers members begin with the credit for a seat, and get theirs before slot 1.
func TestFirstMembers(t *testing.T) {
	w := world{t, New(seatRules(4), slot.Root{})}
	founding := slot.Record{Run: w.Rules().Run, Height: 1, Prev: w.TipHash()}
	founding = w.SettleFork(founding, turns("a"))
	if err := w.Check(founding, 0); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*slot.Member){
		"without a seat": func(m *slot.Member) { m.Seat = 0 }, "with other credit": func(m *slot.Member) { m.Credit++ },
	} {
		r := founding
		r.Members = slices.Clone(r.Members)
		spoil(&r.Members[0])
		if w.Check(r, 0) == nil {
			t.Errorf("a founder %s", name)
		}
	}
	w.Push(wire.Commit{Record: founding})
	for _, c := range []struct{ turns, want string }{
		{"aB", "A32 B32"},
		{"ab", "A32 B32"},
		{"ax", "A32 x32 (b32)"}, // b keeps its place of the first four with its entry
		{"abX", "A32 b32 X32"},
		{"aBcdx", "A32 B32 c32 d0 X32"}, // the fifth is one like any later one
		{"abdx", "A32 B32 d0 X32 (c32)"},
		{"abdx", "A32 B32 d0 X32 (c32)"},
		{"abdex", "A32 B32 d0 e0 X32 (c32)"}, // start_peers binds no more
		{"abCdex", "A32 B32 C32 d0 e0 X32"},
	} {
		if got := w.list(w.record("", 0), c.turns); got != c.want {
			t.Fatalf("%s: %s, want %s", c.turns, got, c.want)
		}
		if starts := len(w.Members()) >= 4 || w.seating.started; starts != w.TakesStep() {
			t.Errorf("with %d members a step: %v", len(w.Members()), !starts)
		}
	}
	w.list(w.record("", 0), "ab")
	if !w.TakesStep() {
		t.Error("two of the first four were lost, and slot 1 waits for them")
	}
}

// An elector is replaced once in eight records.
func TestReplacedElectors(t *testing.T) {
	rules := seatRules(1)
	rules.MaxElectors = 4
	w := found(t, rules, "A40 B40 C33 D33 e80 f80 g80")
	seat := func(listed, want string) {
		t.Helper()
		got := w.list(w.record("", 0), listed)
		if !strings.Contains(got, want) {
			t.Fatalf("at height %d %s: %s", w.Height(), listed, got)
		}
	}
	seat("abcdEfg", "A40 B40 C33 d33 E80 f80 g80") // of two with the least credit the higher ID
	for range 7 {
		seat("abcdeFg", ErrInvalid.Error())
		seat("abcdefg", "E80 f80")
	}
	seat("abcdeFg", "A40 B40 c33 d33 E80 F80 g80")
	seat("abcdefG", ErrInvalid.Error())
}

func TestCrashRunsHaveNoCredit(t *testing.T) {
	rules := seatRules(1)
	rules.Byzantine = false
	w := found(t, rules, "A0 B0 C0")
	turnover := turns("abX!c")
	r := w.Settle(w.record("ab", seatElements), turnover)
	if got := showMembers(r); got != "A0 B0 X0" || w.Check(r, 0) != nil || r.Members[2].Seat != 2 {
		t.Errorf("%s, seat since %d, %v", got, r.Members[2].Seat, w.Check(r, 0))
	}
	if w.Candidates(r) != nil {
		t.Error("somebody waits for a seat")
	}
}

func TestSeatsWorthHaving(t *testing.T) {
	var steps []int
	for n := range maxElectors {
		if s := seatsAbove(n); s > math.MaxInt32 || len(steps) == 0 || steps[len(steps)-1] != s {
			steps = append(steps, s)
		}
	}
	if want := []int{1, 2, 3, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31}; !slices.Equal(steps, want) {
		t.Errorf("seats grow to %v", steps)
	}
	for n := range 40 {
		if got := (Rules{}).full(n); got != (n >= 31) {
			t.Errorf("%d electors are full: %v", n, got)
		}
		if got := (Rules{MaxElectors: 9}).full(n); got != (n >= 7) {
			t.Errorf("%d of 9 electors are full: %v", n, got)
		}
	}
}
