package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/node/timing"
)

// TestFaultsComeAbout: what was missed is counted and named. Half of all faults must come about,
// and one of each kind that was drawn more than once.
func TestFaultsComeAbout(t *testing.T) {
	at := func(p Phase, missed bool) Injected {
		return Injected{Fault: Fault{Kind: Leader, Phase: p}, Missed: missed}
	}
	place := func(p failpoint.Place, missed bool) Injected {
		return Injected{Fault: Fault{Kind: Failpoint, Place: p}, Missed: missed}
	}
	kill := Injected{Fault: Fault{Kind: Kill}}
	for _, c := range []struct {
		name   string
		faults []Injected
		ok     bool
		says   string
	}{
		{"no faults", nil, true, "0 of 0"},
		{"all came", []Injected{kill, at(PhaseVote, false)}, true, "2 of 2"},
		{
			"a phase never came",
			[]Injected{kill, kill, at(PhaseIdle, false), at(PhaseVote, true)},
			true,
			"3 of 4; leader:vote: 1 missed",
		},
		{
			"a place never came",
			[]Injected{
				place(failpoint.VoteSaved, false), place(failpoint.LogHalf, false), place(failpoint.Applied, true),
			},
			true, "2 of 3; failpoint:applied: 1 missed",
		},
		{
			"most never came",
			[]Injected{at(PhaseIdle, false), at(PhaseVote, true), at(PhasePlan, true)},
			false, "2 of 3 faults were missed",
		},
		{
			"no leader was ever killed",
			[]Injected{kill, kill, kill, at(PhaseVote, true), at(PhasePlan, true)},
			false, "leader: all of 2 were missed",
		},
		{"the only one never came", []Injected{at(PhaseVote, true)}, false, "1 of 1 faults were missed"},
	} {
		r := paper(3)
		r.done = c.faults
		if got := r.checkHappen(); got.OK != c.ok || !strings.Contains(got.Detail, c.says) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// chasedFor is a leader's fault that waits for its phase since so long, in which the swarm did some
// slots.
func chasedFor(r *runner, ago time.Duration, slots uint64) *fault {
	f := &fault{
		Injected: Injected{Fault: Fault{Kind: Leader, Phase: PhaseVote}, BegunSlot: 5},
		armedAt:  time.Now().Add(-ago),
	}
	r.active, r.ledger.slot = []*fault{f}, f.BegunSlot+slots
	return f
}

// TestALeaderThatIsMissed: where slots are slow the wait is longer, up to a bound.
func TestALeaderThatIsMissed(t *testing.T) {
	for _, c := range []struct {
		name   string
		ago    time.Duration
		slots  uint64
		missed bool
	}{
		{"soon", time.Second, fairSlots, false},
		{"in all slots", chaseFor, fairSlots, true},
		{"in many fast slots", time.Second, chaseSlots, true},
		{"in slow slots", chaseFor, fairSlots - 1, false},
		{"in slow slots, for long", chaseMost, fairSlots - 1, true},
	} {
		r := paper(5)
		f := chasedFor(r, c.ago, c.slots)
		if err := r.step(t.Context(), f); err != nil || f.Missed != c.missed {
			t.Errorf("%s: missed %v, %v", c.name, f.Missed, err)
		}
	}
}

// TestALeaderThatIsHurtAlready: nothing more is done to one that another fault hurts, or to a peer
// that is no member.
func TestALeaderThatIsHurtAlready(t *testing.T) {
	for _, id := range []string{"", "another"} {
		r := paper(5)
		f := chasedFor(r, chaseFor, fairSlots)
		if id == "" {
			r.suffer(Kill, 2)
		} else {
			r.nodes[1].ID = id
		}
		for i := range uint64(fairSlots) {
			r.chase(f, r.nodes[1], proposed(f.BegunSlot+1+i))
		}
		if err := r.step(t.Context(), f); err != nil || !f.Missed || f.stage != over {
			t.Errorf("%q: missed %v, stage %v, %v", id, f.Missed, f.stage, err)
		}
	}
}

func proposed(slot uint64) eventlog.Line {
	return eventlog.Line{Event: "record.proposed", Slot: slot, Kind: "step"}
}

// TestALeaderAtTheLastSlots: where the run has no slot left, in which a leader could come to its
// phase, nobody waits for it. One in its inner steps is found without a slot.
func TestALeaderAtTheLastSlots(t *testing.T) {
	for _, c := range []struct {
		name   string
		preset string
		phase  Phase
		slot   uint64
		ago    time.Duration
		missed bool
	}{
		{"a slot is left", timing.LAN, PhaseVote, 58, chaseFor, false},
		{"just now", timing.LAN, PhaseVote, 59, lastChance / 2, false},
		{"no slot is left", timing.LAN, PhaseVote, 59, lastChance, true},
		{"for its inner steps", timing.LAN, PhaseIdle, 59, lastChance, false},
		{"for them, too", timing.LAN, PhaseIdle, 59, chaseFor, true},
		{"slow timers", timing.WAN, PhaseVote, 59, lastChance, false},
		{"slow timers, for long", timing.WAN, PhaseVote, 59, time.Minute, true},
	} {
		r := paper(5)
		f := chasedFor(r, c.ago, 0)
		r.cfg.Preset, r.ledger.slot, f.BegunSlot, f.Phase = c.preset, c.slot, c.slot, c.phase
		if err := r.step(t.Context(), f); err != nil || f.Missed != c.missed {
			t.Errorf("%s: missed %v, %v", c.name, f.Missed, err)
		}
	}
}

// TestAPlaceThatSlowSlotsMiss: of a victim the slots count that it has applied itself.
func TestAPlaceThatSlowSlotsMiss(t *testing.T) {
	for _, c := range []struct {
		name    string
		ago     time.Duration
		applied int
		missed  bool
	}{
		{"in all slots", chaseFor, fairSlots + 2, true},
		{"in many fast slots", lastChance, chaseSlots, true},
		{"in slow slots", chaseFor, fairSlots + 1, false},
		{"in slow slots, for long", chaseMost, fairSlots + 1, true},
	} {
		r, f := atPlace(t, false, 0)
		p := r.nodes[0]
		for range c.applied {
			p.lines = append(p.lines, eventlog.Line{Event: "slot.applied"}, eventlog.Line{Event: "slot.committed"})
		}
		f.armedAt = f.armedAt.Add(-c.ago)
		if r.mustStrike(t, f); f.Missed != c.missed {
			t.Errorf("%s: missed %v", c.name, f.Missed)
		}
	}
}

// TestTurnsInVain: with trust crash those that are left after most have died fork the run, and most
// go on when they are back. Neither comes where the run has no slot left, or with trust byzantine.
func TestTurnsInVain(t *testing.T) {
	const left, back = "nobody went on as a branch", "those that had died first did not go on"
	for _, c := range []struct {
		name   string
		trust  string
		slot   uint64
		ago    time.Duration
		wants  bool // it is over
		inVain bool
	}{
		{"they have time", p2pdiloco.TrustCrash, 5, 40 * time.Second, false, false},
		{"it is over", p2pdiloco.TrustCrash, 5, 50 * time.Second, true, true},
		{"the run has no slot left", p2pdiloco.TrustCrash, 59, 50 * time.Second, true, false},
		{"they must wait", p2pdiloco.TrustByzantine, 5, 40 * time.Second, true, false},
	} {
		r, f := paper(4), &fault{Injected: Injected{Fault: Fault{Kind: Turns}, BegunSlot: c.slot}}
		r.cfg.Trust, r.ledger.slot = c.trust, c.slot
		for _, p := range r.nodes {
			p.gone = true // none has a process here
		}
		said := func(text string) bool {
			return len(r.odd) == 1 && strings.Contains(r.odd[0], text)
		}
		f.began = time.Now().Add(-c.ago)
		if err := r.takeTurns(f); err != nil || f.turned.IsZero() == c.wants || said(left) != c.inVain {
			t.Errorf("%s: the others' turn: %v, %q, %v", c.name, !f.turned.IsZero(), r.odd, err)
		}
		r.odd = nil
		f.turned, f.victims, f.members = time.Now().Add(-c.ago), r.nodes[:3], r.ledger.members
		if over := r.turned(f); over != c.wants || said(back) != c.inVain {
			t.Errorf("%s: over %v, %q", c.name, over, r.odd)
		}
		r.odd = nil
		if r.ledger.newest = time.Now(); !r.turned(f) || len(r.odd) > 0 {
			t.Errorf("%s: they went on, and %q", c.name, r.odd)
		}
	}
}
