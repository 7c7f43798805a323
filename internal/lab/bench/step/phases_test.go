package step

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// at is a moment, in milliseconds.
func at(ms int) time.Time { return time.UnixMilli(int64(1e12 + ms)) }

// whole are the marks of a slot in which all is in order; its phases take 1 to 7 ms.
func whole() (*marks, lead) {
	m := &marks{
		Trained: at(0), Offered: at(1), Planned: at(3), Certified: at(15), Applied: at(21), Loaded: at(28),
		Record: "r", Root: "s", Contributed: true,
	}
	return m, lead{Drafted: at(6), Proposed: at(10)}
}

func TestPhasesAddUp(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*marks, *lead)
		want   []float64 // milliseconds
	}{
		"in order":              {func(*marks, *lead) {}, []float64{1, 2, 3, 4, 5, 6, 7}},
		"drafted before":        {func(_ *marks, l *lead) { l.Drafted = at(2) }, []float64{1, 2, 0, 7, 5, 6, 7}},
		"a late note":           {func(m *marks, _ *lead) { m.Applied = at(40) }, []float64{1, 2, 3, 4, 5, 13, 0}},
		"planned before offers": {func(m *marks, _ *lead) { m.Planned = at(-9) }, []float64{1, 0, 5, 4, 5, 6, 7}},
	} {
		m, l := whole()
		c.change(m, &l)
		s, ok := sampleOf(m, l)
		if !ok || s.whole() != .028 {
			t.Errorf("%s: %+v, %v", name, s, ok)
		}
		sum := 0.0
		for i, x := range s[:len(phases)] {
			if sum += x; math.Abs(1000*x-c.want[i]) > 1e-9 {
				t.Errorf("%s: %v, want %v ms", name, s, c.want)
				break
			}
		}
		if math.Abs(sum-s.whole()) > 1e-9 {
			t.Errorf("%s: %v add up to %v of %v", name, s, sum, s.whole())
		}
	}
}

func TestSlotsWithoutThePeer(t *testing.T) {
	for name, change := range map[string]func(*marks, *lead){
		"not listed":     func(m *marks, _ *lead) { m.Contributed = false },
		"state fetched":  func(m *marks, _ *lead) { m.Applied = time.Time{} },
		"leader unknown": func(_ *marks, l *lead) { *l = lead{} },
	} {
		m, l := whole()
		change(m, &l)
		if s, ok := sampleOf(m, l); ok {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if _, ok := sampleOf(nil, lead{}); ok {
		t.Error("a sample of nothing")
	}
}

// two are the answers of two peers, of which the second led the only slot that counts.
func two() []answer {
	first, l := whole()
	second, _ := whole()
	return []answer{
		{Slots: map[uint64]*marks{warmUps + 1: first}, Counts: Counts{0: 2, 5: 7}},
		{
			Slots: map[uint64]*marks{warmUps + 1: second}, Leads: map[string]lead{"r": l},
			Counts: Counts{0: 3, 5: 5, 1: 2000},
			Memory: 9 * 4096,
		},
	}
}

// TestReport: what swarms and OpenMPI did in turns counts together, and is held against the first
// case and OpenMPI's.
func TestReport(t *testing.T) {
	var cfg Config
	for _, trust := range []string{"crash", "byzantine"} {
		c := Case{Peers: 2, Bytes: 4096, Links: bench.Links{RTT: 14 * time.Millisecond}}
		c.Spec.Trust = trust
		cfg.Cases = append(cfg.Cases, c)
	}
	var r bench.Report
	for turn := range 2 {
		for i, c := range cfg.Cases {
			peers := two()
			peers[0].Counts[0] += float64(5 * i)
			if err := c.add(&r, turn, 1, peers); err != nil {
				t.Fatal(err)
			}
		}
		r.Add(turn, cfg.Cases[0].nameOf("MPI"), 1, mpiValues(bench.Round{Seconds: .006, CPU: 1, Sent: 1e9})...)
	}
	compare(&r, cfg)
	const crash, byzantine = "Step/peers=2/size=4KiB/crash/rtt=14ms", "Step/peers=2/size=4KiB/byzantine/rtt=14ms"
	for key, want := range map[[2]string][]float64{
		{crash, "sec/op"}: {.028, .028, .028, .028}, {crash, "encode-sec"}: {.001, .001, .001, .001},
		{crash, "exchange-B"}: {2000, 2000}, {crash, "fsyncs"}: {12, 12}, {crash, "most-fsyncs"}: {7, 7},
		{crash, "peak-vectors"}: {9, 9}, {crash, "missed-slots"}: {0, 0}, {crash, "round-trips"}: {2, 2, 2, 2},
		{crash, "reduce-sec-x-mpi"}: {.5, .5}, {byzantine, "cpu-sec-x-first"}: {2, 2}, {crash, "cpu-sec-x-first"}: nil,
	} {
		if got := r.Samples(key[0], key[1]); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", key, got, want)
		}
	}
	peers := two()
	delete(peers[0].Slots, warmUps+1)
	if err := cfg.Cases[0].add(&r, 2, 1, peers); err != nil || r.Samples(crash, "missed-slots")[2] != 1 {
		t.Errorf("a slot that a peer missed: %v, %v", r.Samples(crash, "missed-slots"), err)
	}
	delete(peers[1].Slots, warmUps+1)
	if err := cfg.Cases[0].add(&r, 3, 1, peers); err == nil {
		t.Error("a result of nothing")
	}
}

func TestDifferentRootsAreAnError(t *testing.T) {
	peers := two()
	peers[1].Slots[warmUps+1].Root = "other"
	if err := (Case{}).add(&bench.Report{}, 0, 1, peers); err == nil ||
		!strings.Contains(err.Error(), "after slot 3 two peers hold") {
		t.Errorf("got %v", err)
	}
}

// TestRecorder has a leader's slot drafted in two ballots, of which the second one is proposed.
func TestRecorder(t *testing.T) {
	r, self := newRecorder(), p2pdiloco.PeerID("p")
	tell := func(ms int, name string, fields map[string]any) {
		fields["slot"] = uint64(3)
		r.event(p2pdiloco.Event{Time: at(ms), Name: name, Peer: self, Fields: fields})
	}
	record, state := p2pdiloco.Root{1}, p2pdiloco.Root{2}
	of := func(kind string, ballot uint32) map[string]any {
		return map[string]any{"height": uint64(9), "kind": kind, "ballot": ballot, "record": record}
	}
	r.trained(3, at(0))
	r.offered(3, at(1))
	tell(2, "slot.planned", map[string]any{})
	tell(3, "slot.planned", map[string]any{}) // a revision
	tell(4, "record.drafted", of("step", 0))
	tell(5, "record.drafted", of("step", 1))
	tell(6, "record.proposed", of("step", 1))
	tell(7, "record.certified", of("step", 1))
	tell(7, "record.certified", of("members", 1))
	tell(7, "slot.committed", map[string]any{"contributors": []p2pdiloco.PeerID{"o", self}})
	tell(8, "slot.applied", map[string]any{"state_root": state})
	r.loaded(at(9))
	r.trained(4, at(10))
	want := marks{at(0), at(1), at(2), at(7), at(8), at(9), record.String(), state.String(), true}
	if got := *r.mu.slots[3]; got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if l := r.mu.leads[record.String()]; l != (lead{at(5), at(6)}) {
		t.Errorf("leader's %+v", l)
	}
}
