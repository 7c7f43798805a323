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

// two are the reports of two peers, of which the second led the only slot that counts.
func two() (Config, []peerReport) {
	cfg := Config{Config: bench.Config{Peers: 2}, Bytes: 4096, Slots: 1}
	first, l := whole()
	second, _ := whole()
	slot := cfg.first()
	return cfg, []peerReport{
		{Slots: map[uint64]*marks{slot: first}, Counts: Counts{0: 2, 5: 7}},
		{
			Slots: map[uint64]*marks{slot: second}, Leads: map[string]lead{"r": l},
			Counts: Counts{0: 3, 5: 5, 1: 2000},
			Memory: 9 * 4096,
		},
	}
}

func TestReport(t *testing.T) {
	cfg, peers := two()
	of := func() (string, error) {
		r, err := report(cfg, []turn{{cfg, "crash", peers}}, []bench.Round{{Seconds: .006, CPU: 1, Sent: 1e9}})
		var text strings.Builder
		r.Print(&text)
		return strings.Join(strings.Fields(text.String()), " "), err
	}
	text, err := of()
	for _, want := range []string{
		"links: loopback", "0 of 2 slots of a peer went on without it", "0.028 sec/op 0.001 encode-sec", "2000 exchange-B",
		"fsyncs 12", "peak-vectors 9", "cpu-sec 5.00 s", "BenchmarkMPI/peers=2/size=4KiB-", "0.5 reduce-x-mpi",
		"Step/peers=2/size=4KiB/crash sec/op 28.0 ms",
	} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%v, %q is missing in\n%s", err, want, text)
		}
	}
	delete(peers[0].Slots, cfg.first())
	if text, err = of(); err != nil || !strings.Contains(text, "1 of 2 slots") {
		t.Errorf("%s, %v", text, err)
	}
	delete(peers[1].Slots, cfg.first())
	if _, err := of(); err == nil {
		t.Error("a result of nothing")
	}
}

// TestTurns: what swarms of one trust did counts together, and two trusts stand side by side.
func TestTurns(t *testing.T) {
	both := Config{Slots: 25, Trusts: []string{"crash", "byzantine"}}
	if got := both.turns(); !slices.Equal(got, []uint64{10, 10, 5}) {
		t.Errorf("turns of %v slots", got)
	}
	if got := (Config{Slots: 25}).turns(); !slices.Equal(got, []uint64{25}) {
		t.Errorf("turns of %v slots", got)
	}
	cfg, peers := two()
	whole := cfg
	whole.Slots, whole.RTT, whole.Trusts = 2, 14*time.Millisecond, both.Trusts
	turns := []turn{{cfg, "byzantine", peers}, {cfg, "crash", peers}, {cfg, "byzantine", peers}}
	r, err := report(whole, turns, nil)
	if err != nil {
		t.Fatal(err)
	}
	const name = "Step/peers=2/size=4KiB/byzantine/rtt=14ms"
	if x := r.Samples(name, "round-trips"); len(x) != 4 || x[3] != 2 {
		t.Errorf("round trips %v", x)
	}
	if x := r.Samples(name, "fsyncs"); len(x) != 1 || x[0] != 12 {
		t.Errorf("fsyncs %v", x)
	}
	if x := r.Samples(name, "cpu-x-first"); len(x) != 1 || x[0] != 2 {
		t.Errorf("CPU beside the first trust's %v", x)
	}
}

func TestDifferentRootsAreAnError(t *testing.T) {
	cfg, peers := two()
	peers[1].Slots[cfg.first()].Root = "other"
	if _, err := report(cfg, []turn{{cfg, "crash", peers}}, nil); err == nil ||
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

func TestValidate(t *testing.T) {
	good := Config{Config: bench.Config{Peers: 4}, Bytes: 1 << 20, Slots: 50}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	err := Config{Config: bench.Config{Peers: 1}, Bytes: 1 << 40, Slots: 0, RTT: -1, Trusts: []string{"blind"}}.Validate()
	var flags []string
	for line := range strings.Lines(err.Error()) {
		flags = append(flags, strings.Fields(line)[0])
	}
	if want := []string{"--peers", "--size", "--slots", "--rtt", "--trusts"}; !slices.Equal(flags, want) {
		t.Errorf("faults of %q: %v", flags, err)
	}
}
