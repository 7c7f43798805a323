package bench

import (
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// at is a moment, in milliseconds.
func at(ms int) time.Time { return time.UnixMilli(int64(1e12 + ms)) }

// whole are the marks of a slot in which all is in order; its phases take 1 to 7 ms.
func whole() *Marks {
	moments := [...]time.Time{at(0), at(1), at(3), at(6), at(10), at(15), at(21), at(28)}
	return &Marks{At: moments, Root: "s", Contributed: true}
}

func TestPhasesAddUp(t *testing.T) {
	for name, c := range map[string]struct {
		moment, at int
		want       []float64 // milliseconds
	}{
		"in order":              {drafted, 6, []float64{1, 2, 3, 4, 5, 6, 7}},
		"drafted before":        {drafted, 2, []float64{1, 2, 0, 7, 5, 6, 7}},
		"a late note":           {loaded - 1, 40, []float64{1, 2, 3, 4, 5, 13, 0}},
		"planned before offers": {planned, -9, []float64{1, 0, 5, 4, 5, 6, 7}},
	} {
		m := whole()
		m.At[c.moment] = at(c.at)
		s := m.seconds()
		if len(s) != len(moments) || s[len(s)-1] != .028 {
			t.Fatalf("%s: %v", name, s)
		}
		sum := 0.0
		for i, want := range c.want {
			if sum += s[i]; math.Abs(1000*s[i]-want) > 1e-9 {
				t.Errorf("%s: %v, want %v ms", name, s, c.want)
				break
			}
		}
		if math.Abs(sum-.028) > 1e-9 {
			t.Errorf("%s: %v add up to %v", name, s, sum)
		}
	}
}

func TestSlotsWithoutThePeer(t *testing.T) {
	for name, change := range map[string]func(*Marks){
		"not listed":     func(m *Marks) { m.Contributed = false },
		"state fetched":  func(m *Marks) { m.At[loaded-1] = time.Time{} },
		"leader unknown": func(m *Marks) { m.At[drafted] = time.Time{} },
		"nothing":        func(m *Marks) { *m = Marks{} },
	} {
		m := whole()
		change(m)
		if s := m.seconds(); s != nil {
			t.Errorf("%s: %v", name, s)
		}
	}
}

// two are what two peers tell, of which the second led the only slot that counts, and the first had
// begun to.
func two() []Told {
	first := whole()
	first.At[drafted], first.At[drafted+1] = at(2), at(3)
	return []Told{
		{Slots: map[uint64]*Marks{warmUps + 1: first}, Before: Counts{0: 1, 3: 1}, After: Counts{0: 3, 3: 8}},
		{
			Slots: map[uint64]*Marks{warmUps + 1: whole()}, After: Counts{0: 3, 3: 5, 1: 2000},
			Memory: 9 * 4096, Live: 5 * 4096,
		},
	}
}

// TestStepReport: what swarms and OpenMPI did in turns counts together, and is held against the
// first case and OpenMPI's.
func TestStepReport(t *testing.T) {
	var cfg StepConfig
	for _, trust := range []string{"crash", "byzantine"} {
		c := Case{Place: Place{Peers: 2, RTT: 14 * time.Millisecond}, Bytes: 4096}
		c.Spec.Trust = trust
		cfg.Cases = append(cfg.Cases, c)
	}
	r := Report{Out: io.Discard}
	add := func(c Case, number int, peers []Told) error {
		return (&turn{Case: c, report: &r, number: number, slots: 1, floor: floor{2, .5, 1.5}}).addSteps(peers)
	}
	for turn := range 2 {
		for i, c := range cfg.Cases {
			peers := two()
			peers[0].After[0] += float64(5 * i)
			if err := add(c, turn, peers); err != nil {
				t.Fatal(err)
			}
		}
		r.Add(turn, cfg.Cases[0].nameOf("MPI"), "reduce-sec", .006)
	}
	cfg.compare(&r)
	const crash, byzantine = "Step/peers=2/size=4KiB/crash/rtt=14ms", "Step/peers=2/size=4KiB/byzantine/rtt=14ms"
	for key, want := range map[[2]string][]float64{
		{crash, "sec/op"}: {.028, .028, .028, .028}, {crash, "encode-sec"}: {.001, .001, .001, .001},
		{crash, "exchange-B"}: {2000, 2000}, {crash, "gossip-B"}: {12, 12}, {crash, "live-vectors"}: {5, 5},
		{crash, "floor-sec"}: {2, 2}, {crash, "floor-subtract-sec"}: {.5, .5}, {byzantine, "cpu-sec-x-floor"}: {5, 5},
		{crash, "peak-vectors"}: {9, 9}, {crash, "missed-slots"}: {0, 0},
		{crash, "reduce-sec-x-mpi"}: {.5, .5}, {byzantine, "cpu-sec-x-first"}: {2, 2}, {crash, "cpu-sec-x-first"}: nil,
	} {
		if got := r.Samples(key[0], key[1]); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", key, got, want)
		}
	}
	peers := two()
	delete(peers[0].Slots, warmUps+1)
	if err := add(cfg.Cases[0], 2, peers); err != nil || r.Samples(crash, "missed-slots")[2] != 1 {
		t.Errorf("a slot that a peer missed: %v, %v", r.Samples(crash, "missed-slots"), err)
	}
	delete(peers[1].Slots, warmUps+1)
	if err := add(cfg.Cases[0], 3, peers); err == nil {
		t.Error("a result of nothing")
	}
}

func TestDifferentRootsAreAnError(t *testing.T) {
	peers := two()
	peers[1].Slots[warmUps+1].Root = "other"
	if err := (&turn{slots: 1}).addSteps(peers); err == nil ||
		!strings.Contains(err.Error(), "after slot 31 two peers hold") {
		t.Errorf("got %v", err)
	}
}

// TestRecorder has a leader's slot drafted in two ballots, of which the second one is proposed.
func TestRecorder(t *testing.T) {
	r, self := &recorder{slots: map[uint64]*Marks{}}, p2pdiloco.PeerID("p")
	tell := func(ms int, name string, fields map[string]any) {
		fields["slot"] = uint64(3)
		r.event(p2pdiloco.Event{Time: at(ms), Name: name, Peer: self, Fields: fields})
	}
	of := func(kind string) map[string]any { return map[string]any{"kind": kind} }
	r.note(3, "trained", at(0))
	r.note(3, "offered", at(1))
	tell(2, "slot.planned", map[string]any{})
	tell(3, "slot.planned", map[string]any{}) // a revision
	tell(4, "record.drafted", of("step"))
	tell(5, "record.drafted", of("step"))
	tell(6, "record.proposed", of("step"))
	tell(7, "record.certified", of("step"))
	tell(8, "record.certified", of("members"))
	tell(8, "slot.committed", map[string]any{"contributors": []p2pdiloco.PeerID{"o", self}})
	tell(8, "slot.applied", map[string]any{"state_root": p2pdiloco.Root{2}})
	r.note(3, "loaded", at(9))
	want := Marks{
		[...]time.Time{at(0), at(1), at(2), at(5), at(6), at(7), at(8), at(9)}, p2pdiloco.Root{2}.String(), true,
	}
	if got := *r.slots[3]; got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
