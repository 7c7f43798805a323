package chaos

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

func TestScheduleIsAFunctionOfItsArguments(t *testing.T) {
	all := Kinds(true)
	first := Schedule(7, 8, 60, all)
	if !reflect.DeepEqual(first, Schedule(7, 8, 60, all)) {
		t.Error("two schedules of one seed differ")
	}
	if reflect.DeepEqual(first, Schedule(8, 8, 60, all)) {
		t.Error("another seed gives the same schedule")
	}
	want := Fault{Slot: 3, Kind: Load, Pick: 4192164882, Slots: 4, Seconds: 7.8}
	if got := Schedule(1, 8, 60, all)[0]; got != want {
		t.Errorf("seed 1 begins with %+v: a failing seed of an earlier version would replay as something else", got)
	}
}

// TestScheduleHasAllKinds: in an ordinary run each kind has its turn, and a leader dies in each
// phase.
func TestScheduleHasAllKinds(t *testing.T) {
	for _, kinds := range []lab.Names[Kind]{Kinds(true), Kinds(false)} {
		for seed := range uint64(20) {
			met := map[Kind]bool{}
			dead := map[Phase]bool{}
			for _, f := range Schedule(seed+1, 8, 60, kinds) {
				met[f.Kind], dead[f.Phase] = true, true
			}
			for _, k := range kinds {
				if !met[k] {
					t.Errorf("seed %d: no %s", seed+1, k)
				}
			}
			for _, p := range phases {
				if !dead[p] {
					t.Errorf("seed %d: no leader dies in phase %s", seed+1, p)
				}
			}
		}
	}
}

func TestScheduleKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		peers := rapid.IntRange(minPeers, maxPeers).Draw(t, "peers")
		slots := rapid.Uint64Range(0, 400).Draw(t, "slots")
		all := rapid.SampledFrom(append(Kinds(true), byName...))
		kinds := rapid.SliceOfNDistinct(all, 0, -1, rapid.ID).Draw(t, "kinds")
		faults := Schedule(rapid.Uint64().Draw(t, "seed"), peers, slots, kinds)
		if len(faults) == 0 && slots >= minSlots && len(kinds) > 0 {
			t.Fatal("there is room and nothing happens")
		}
		for i, f := range faults {
			if f.Kind.last() {
				if i != len(faults)-1 || f.Kind == End && f.Slot != slots-quietLast || f.Slot < quietFirst ||
					f.Slot > slots-quietLast && f.Slot > quietFirst {
					t.Fatalf("%+v is not at the end of %d slots", f, slots)
				}
				continue
			}
			switch {
			case !slices.Contains(kinds, f.Kind):
				t.Fatalf("%+v was not asked for", f)
			case f.Slot < quietFirst || f.Slot >= slots-quietLast:
				t.Fatalf("%+v of %d slots", f, slots)
			case i > 0 && f.Slot <= faults[i-1].Slot:
				t.Fatalf("%+v comes with or before %+v", f, faults[i-1])
			case (f.Kind == Leader) != (f.Phase != ""):
				t.Fatalf("%+v: phases are the leader's", f)
			case f.Kind == Partition && (f.Side < 1 || f.Side > peers/2):
				t.Fatalf("%+v of %d peers has no smaller side", f, peers)
			case f.Seconds > longestFault.Seconds() && f.Kind != Partition, 2*f.Side == peers && f.Seconds < forkTime:
				t.Fatalf("%+v lasts too long, or ends before a half forks", f)
			}
		}
	})
}

// TestPartitionsHaveAllSides: each size of the smaller side occurs, for a short time and for longer
// than it takes to fork.
func TestPartitionsHaveAllSides(t *testing.T) {
	type shape struct {
		side  int
		forks bool
	}
	// a half always waits for a fork
	for peers, want := range map[int]int{3: 2, 4: 3, 5: 4, 6: 5, 8: 7} {
		met := map[shape]bool{}
		for seed := range uint64(40) {
			for _, f := range Schedule(seed+1, peers, 60, []Kind{Partition}) {
				met[shape{f.Side, f.Seconds >= forkTime}] = true
			}
		}
		if len(met) != want {
			t.Errorf("of %d peers: %v, want %d shapes", peers, met, want)
		}
	}
}

func TestKinds(t *testing.T) {
	if got, err := ParseKinds("kill, leader,kill"); err != nil || got.String() != "kill,leader" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := ParseKinds("disk-full,wipe-two,one-way"); err != nil || NeedLinks(got).String() != "one-way" ||
		!NeedRoot(got) || NeedRoot(Kinds(true)) {
		t.Errorf("%v, %v", got, err)
	}
	for _, k := range append(Kinds(true), byName...) {
		if k.mayCost().says == "" {
			t.Errorf("nobody says what %s may cost", k)
		}
	}
	for _, list := range []string{"", "kill,", "kil"} {
		if _, err := ParseKinds(list); err == nil {
			t.Errorf("%q was taken", list)
		}
	}
	if got := NeedLinks(Kinds(true)).String(); got != "cut,partition,flap,slow,pair,loss" {
		t.Errorf("need links: %s", got)
	}
	if len(NeedLinks(Kinds(false))) > 0 {
		t.Error("kinds without links need links")
	}
}
