package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/node/timing"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// TestFaultsComeAbout: each kind, phase and place must come about once, unless something was in its
// way; and half of all faults must, whatever was.
func TestFaultsComeAbout(t *testing.T) {
	at := func(p Phase, missed bool, excuse string) Injected {
		return Injected{Fault: Fault{Kind: Leader, Phase: p}, Missed: missed, Excuse: excuse}
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
		{"all came", []Injected{kill, at(PhaseVote, false, "")}, true, "2 of 2"},
		{
			"a phase never came",
			[]Injected{kill, kill, at(PhaseIdle, false, ""), at(PhaseVote, true, "")},
			false,
			"leader:vote",
		},
		{"it came once", []Injected{kill, at(PhaseVote, true, ""), at(PhaseVote, false, "")}, true, "2 of 3"},
		{
			"it had no chance",
			[]Injected{kill, at(PhaseVote, true, "too few slots")},
			true,
			"leader:vote missed: too few slots",
		},
		{
			"a place never came",
			[]Injected{
				place(failpoint.VoteSaved, false), place(failpoint.LogHalf, false), place(failpoint.Applied, true),
			},
			false, "failpoint:applied",
		},
		{
			"most had no chance",
			[]Injected{at(PhaseIdle, false, ""), at(PhaseVote, true, "x"), at(PhasePlan, true, "x")},
			false, "2 of 3 faults were missed",
		},
		{
			"no leader was ever killed",
			[]Injected{kill, kill, kill, at(PhaseVote, true, "x"), at(PhasePlan, true, "x")},
			false, "leader: all of 2 were missed",
		},
		{"the only one had no chance", []Injected{at(PhaseVote, true, "x")}, false, "1 of 1 faults were missed"},
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

// TestALeaderThatIsMissed: where slots are slow the wait is longer. Where leaders were in their
// phase and hurt already, or hardly a slot came, it is no fault that none was caught. Slots without
// such a leader count, and are waited for.
func TestALeaderThatIsMissed(t *testing.T) {
	for _, c := range []struct {
		name   string
		ago    time.Duration
		slots  uint64
		hurt   uint64 // slots in which the leader is hurt
		missed bool
		excuse string
	}{
		{"soon", time.Second, fairSlots, 0, false, ""},
		{"in all slots", chaseFor, fairSlots, 0, true, ""},
		{"in many fast slots", time.Second, chaseSlots, 0, true, ""},
		{"in slow slots", chaseFor, fairSlots - 1, 0, false, ""},
		{"in slow slots, for long", chaseMost, fairSlots - 1, 0, true, "too few slots"},
		{"the leader is down", chaseMost, fairSlots, fairSlots, true, "the leader was hurt already"},
		{"one of four is down", chaseFor, fairSlots, 1, false, ""},
		{"one of five is down", chaseFor, fairSlots + 1, 1, true, ""},
		{"one of many is down", time.Second, chaseSlots, 1, true, ""},
		{"the next one is down", chaseFor, fairSlots, fairSlots + 1, false, ""},
	} {
		r := paper(5)
		f := chasedFor(r, c.ago, c.slots)
		r.suffer(Kill, 2)
		for i := range c.hurt {
			for range 2 { // as two logs say
				r.chase(f, r.nodes[1], proposed(f.BegunSlot+1+i))
			}
		}
		if err := r.step(t.Context(), f); err != nil || f.Missed != c.missed || f.Excuse != c.excuse {
			t.Errorf("%s: missed %v, %q, %v", c.name, f.Missed, f.Excuse, err)
		}
	}
}

func proposed(slot uint64) eventlog.Line {
	return eventlog.Line{Event: "record.proposed", Slot: slot, Kind: "step"}
}

// TestALeaderThatNobodyHurts: one that is in its phase, and is not struck though nothing is done to
// it, excuses nothing.
func TestALeaderThatNobodyHurts(t *testing.T) {
	r := paper(5)
	f := chasedFor(r, chaseFor, fairSlots)
	r.nodes[1].ID = "another" // which is no member
	for i := range uint64(fairSlots) {
		r.chase(f, r.nodes[1], proposed(f.BegunSlot+1+i))
	}
	if err := r.step(t.Context(), f); err != nil || !f.Missed || f.Excuse != "" {
		t.Errorf("missed %v, %q, %v", f.Missed, f.Excuse, err)
	}
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
		excuse := ""
		if c.missed {
			excuse = "too few slots"
		}
		if err := r.step(t.Context(), f); err != nil || f.Missed != c.missed || f.Excuse != excuse {
			t.Errorf("%s: missed %v, %q, %v", c.name, f.Missed, f.Excuse, err)
		}
	}
}

// TestAPlaceThatSlowSlotsMiss: of a victim the slots count that it has applied itself. One without
// a vote need not come to the places of those that have one.
func TestAPlaceThatSlowSlotsMiss(t *testing.T) {
	for _, c := range []struct {
		name     string
		ago      time.Duration
		applied  int
		place    failpoint.Place
		voteless bool
		missed   bool
		excuse   string
	}{
		{"in all slots", chaseFor, fairSlots + 2, failpoint.VoteSigned, false, true, ""},
		{"in many fast slots", lastChance, chaseSlots, failpoint.VoteSigned, false, true, ""},
		{"in slow slots", chaseFor, fairSlots + 1, failpoint.VoteSigned, false, false, ""},
		{"in slow slots, for long", chaseMost, fairSlots + 1, failpoint.VoteSigned, false, true, "too few slots"},
		{"without a vote", chaseFor, fairSlots + 2, failpoint.VoteSigned, true, true, "the victim had no vote"},
		{"of one without a vote, in its log", chaseFor, fairSlots + 2, failpoint.LogHalf, true, true, ""},
	} {
		r, f := atPlace(t, false, 0)
		p := r.nodes[0]
		self := slot.PeerID("voter")
		f.Place, p.ID, p.status.Height = c.place, self.String(), 9
		p.status.Members = []p2pdiloco.MemberStatus{{Seat: 1}, {Peer: self, Seat: 3}}
		if c.voteless {
			p.status.Members[1].Seat = 0
		}
		for range c.applied {
			p.lines = append(p.lines, eventlog.Line{Event: "slot.applied"}, eventlog.Line{Event: "slot.committed"})
		}
		f.armedAt = f.armedAt.Add(-c.ago)
		if r.mustStrike(t, f); f.Missed != c.missed || f.Excuse != c.excuse {
			t.Errorf("%s: missed %v, %q", c.name, f.Missed, f.Excuse)
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
			notes := append(r.odd, r.light...) // the latter on a busy machine
			return len(notes) == 1 && strings.Contains(notes[0], text)
		}
		f.began = time.Now().Add(-c.ago)
		if err := r.takeTurns(f); err != nil || f.turned.IsZero() == c.wants || said(left) != c.inVain {
			t.Errorf("%s: the others' turn: %v, %q, %q, %v", c.name, !f.turned.IsZero(), r.odd, r.light, err)
		}
		r.odd, r.light = nil, nil
		f.turned, f.victims, f.members = time.Now().Add(-c.ago), r.nodes[:3], r.ledger.members
		if over := r.turned(f); over != c.wants || said(back) != c.inVain {
			t.Errorf("%s: over %v, %q, %q", c.name, over, r.odd, r.light)
		}
		r.odd, r.light = nil, nil
		if r.ledger.newest = time.Now(); !r.turned(f) || len(r.odd)+len(r.light) > 0 {
			t.Errorf("%s: they went on, and %q, %q", c.name, r.odd, r.light)
		}
	}
}

// TestABusyMachineIsAnExcuse: there a peer may stand still, and wait anew for the others.
func TestABusyMachineIsAnExcuse(t *testing.T) {
	r, f := paper(4), &fault{Injected: Injected{Fault: Fault{Kind: Apart}, BegunSlot: 5}}
	r.inVain(f, noBranch, busyMachine+1)
	if len(r.odd) > 0 || len(r.light) != 1 {
		t.Errorf("%q, %q", r.odd, r.light)
	}
	if r.inVain(f, noBranch, busyMachine); len(r.odd) != 1 {
		t.Errorf("%q, %q", r.odd, r.light)
	}
}
