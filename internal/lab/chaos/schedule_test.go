package chaos

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
)

func TestScheduleIsAFunctionOfItsArguments(t *testing.T) {
	all := Kinds(true)
	first := Schedule(7, 8, 60, all)
	if !reflect.DeepEqual(first, Schedule(7, 8, 60, all)) || reflect.DeepEqual(first, Schedule(8, 8, 60, all)) {
		t.Error("two schedules of one seed differ, or those of two seeds do not")
	}
	want := Fault{Slot: 3, Kind: "restart", Pick: 1835461765}
	if got := Schedule(1, 8, 60, all)[0]; got != want {
		t.Errorf("seed 1 begins with %+v: a failing seed of an earlier version would replay as something else", got)
	}
}

// TestScheduleHasAllKinds: in an ordinary run each kind has its turn, and a partition has each size
// of its smaller side, shorter and longer than it takes to fork. A long run comes to all places,
// and short ones to some, which the seed draws.
func TestScheduleHasAllKinds(t *testing.T) {
	sides, places := map[Fault]bool{}, map[failpoint.Place]bool{}
	for seed := range uint64(20) {
		met := map[string]bool{}
		for _, f := range Schedule(seed+1, 8, 60, Kinds(true)) {
			if met[f.name()] = true; f.Side > 0 {
				sides[Fault{Side: f.Side, Fork: f.Fork}] = true
			}
		}
		if want := len(Kinds(true)); len(met) != want {
			t.Errorf("seed %d: %d kinds, want %d: %v", seed+1, len(met), want, met)
		}
		for _, f := range Schedule(seed+1, 4, 20, []Kind{Failpoint}) {
			places[f.Place] = true
		}
	}
	if len(places) != len(failpoint.Places()) || len(Schedule(1, 4, 60, []Kind{Failpoint})) < len(places) {
		t.Errorf("20 short runs come to the places %v", places)
	}
	if len(sides) != 7 { // a half always waits for a fork
		t.Errorf("partitions are %v", sides)
	}
}

func TestScheduleKeepsItsBounds(t *testing.T) {
	var all []Kind
	for _, w := range rows {
		all = append(all, w.kind)
	}
	rapid.Check(t, func(t *rapid.T) {
		peers := rapid.IntRange(minPeers, maxPeers).Draw(t, "peers")
		slots := rapid.Uint64Range(0, 400).Draw(t, "slots")
		kinds := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, -1, rapid.ID).Draw(t, "kinds")
		faults := Schedule(rapid.Uint64().Draw(t, "seed"), peers, slots, kinds)
		if len(faults) == 0 && slots >= minSlots && len(kinds) > 0 {
			t.Fatal("there is room and nothing happens")
		}
		for i, f := range faults {
			w, end := f.Kind.row(), slots-quietLast
			if f.Kind == End {
				end++ // it comes last, in a short run as early as may be
			}
			switch {
			case !slices.Contains(kinds, f.Kind), f.Kind == End && i != len(faults)-1:
				t.Fatalf("%+v comes as number %d of %d", f, i, len(faults))
			case f.Slot < quietFirst || f.Slot >= max(end, quietFirst+1):
				t.Fatalf("%+v of %d slots", f, slots)
			case i > 0 && f.Kind != End && f.Slot <= faults[i-1].Slot:
				t.Fatalf("%+v comes with or before %+v", f, faults[i-1])
			case (w.pick == side) != (f.Side > 0), f.Side > peers/2:
				t.Fatalf("%+v of %d peers", f, peers)
			case f.Seconds > longestFault.Seconds(), f.Fork && f.Side == 0, 2*f.Side == peers && !f.Fork:
				t.Fatalf("%+v lasts too long, or ends before a half forks", f)
			}
		}
	})
}

// TestPresetWANTakesLonger: faults and bounds on waiting follow the timers of the peers.
func TestPresetWANTakesLonger(t *testing.T) {
	lan, wan := paper(3), paper(3)
	wan.cfg.Preset = "wan"
	for _, c := range []struct {
		fault     Fault
		lan, long time.Duration
	}{
		{Fault{Seconds: 2.5}, 2500 * time.Millisecond, 50 * time.Second},
		{Fault{Seconds: 1, Fork: true}, 21 * time.Second, 320 * time.Second},
	} {
		f := newFault(c.fault)
		if a, b := lan.length(f), wan.length(f); a != c.lan || b != c.long {
			t.Errorf("%+v: %v, with the preset wan %v", c.fault, a, b)
		}
	}
	if lost, patience := wan.cfg.lostLate(), wan.cfg.patience(); lost != 90*time.Second || patience != 15*time.Minute ||
		lan.cfg.link() == wan.cfg.link() {
		t.Errorf("bounds: %v, %v", lost, patience)
	}
}
