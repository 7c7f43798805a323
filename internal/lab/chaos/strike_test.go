package chaos

import (
	"os"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/failpoint/order"
)

// atPlace is a runner with a peer that has an order, and whose process has ended or not.
func atPlace(t *testing.T, gone bool, nap float64) (*runner, *fault) {
	t.Helper()
	r, f := died(t)
	p := r.nodes[0]
	r.ledger.slot, p.gone = 5, gone
	f.Fault = Fault{Kind: Failpoint, Place: failpoint.VoteSigned, Nap: nap}
	f.stage, f.armedAt, p.hurt = on, time.Now(), f
	if err := r.inject(f); err != nil {
		t.Fatal(err)
	}
	return r, f
}

func (r *runner) mustStrike(t *testing.T, f *fault) {
	t.Helper()
	if err := r.struck(f); err != nil {
		t.Fatal(err)
	}
}

// TestAVictimComesToItsPlace: the fault begins when the process takes its order, as a process with
// failpoints does.
func TestAVictimComesToItsPlace(t *testing.T) {
	for _, nap := range []float64{0, 3} {
		r, f := atPlace(t, false, nap)
		p := r.nodes[0]
		if p.asked != (nap == 0) {
			t.Errorf("nap %v: its end is expected: %v", nap, p.asked)
		}
		if r.mustStrike(t, f); !f.struck.IsZero() || r.due(f) {
			t.Error("the fault began though nobody came to the place")
		}
		if _, ok, err := order.Take(p.orders(), string(failpoint.VoteSigned)); !ok || err != nil {
			t.Fatal(ok, err)
		}
		r.ledger.slot = 7
		r.mustStrike(t, f)
		if f.struck.IsZero() || f.BegunSlot != 7 || p.gone != (nap == 0) {
			t.Errorf("nap %v: began at slot %d, gone: %v", nap, f.BegunSlot, p.gone)
		}
		if got := r.due(f); got != (nap == 0) {
			t.Errorf("nap %v: over at once: %v", nap, got)
		}
	}
}

// TestAPlaceThatIsMissed: after some time, or where no slot is left, the order is taken back.
func TestAPlaceThatIsMissed(t *testing.T) {
	for _, c := range []struct {
		slot uint64
		ago  time.Duration
		want bool
	}{{5, 0, false}, {5, lastChance, false}, {59, lastChance, true}, {5, chaseMost, true}} {
		r, f := atPlace(t, false, 0)
		r.ledger.slot, f.armedAt = c.slot, f.armedAt.Add(-c.ago)
		r.mustStrike(t, f)
		if f.Missed != c.want || r.due(f) != c.want || r.nodes[0].asked == c.want {
			t.Errorf("slot %d, %v later: missed %v", c.slot, c.ago, f.Missed)
		}
		if _, err := os.Stat(r.nodes[0].orders()); (err != nil) != c.want {
			t.Errorf("slot %d, %v later: the order is there: %v", c.slot, c.ago, err == nil)
		}
	}
}

// TestAnEndBeforeThePlace: a process that ends elsewhere ended by itself.
func TestAnEndBeforeThePlace(t *testing.T) {
	r, f := atPlace(t, true, 0)
	if r.mustStrike(t, f); len(r.ended) != 1 {
		t.Errorf("it is not said: %q", r.ended)
	}
}

// TestScheduleHasAllPlaces: a long run comes to all of them, and a short one to some, which the
// seed draws.
func TestScheduleHasAllPlaces(t *testing.T) {
	places := func(seed, slots uint64) map[failpoint.Place]bool {
		met := map[failpoint.Place]bool{}
		for _, f := range Schedule(seed, 4, slots, []Kind{Failpoint}) {
			if f.Place == "" || f.Nap > 0 && f.Slots > 0 {
				t.Errorf("seed %d: %+v", seed, f)
			}
			met[f.Place] = true
		}
		return met
	}
	all := map[failpoint.Place]bool{}
	for seed := range uint64(20) {
		if got := places(seed+1, 60); len(got) != len(failpoint.Places()) {
			t.Errorf("seed %d: %d places", seed+1, len(got))
		}
		for p := range places(seed+1, 20) {
			all[p] = true
		}
	}
	if len(all) != len(failpoint.Places()) {
		t.Errorf("20 short runs come to %d places", len(all))
	}
}

// TestWhatHasFailpoints: a program without build settings has none, and what is no program is
// refused.
func TestWhatHasFailpoints(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if has, err := HasFailpoints(self); err != nil || has {
		t.Errorf("%v, %v", has, err)
	}
	if _, err := HasFailpoints(os.DevNull); err == nil {
		t.Error("a file that is no program was taken")
	}
}
