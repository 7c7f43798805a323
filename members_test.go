package p2pdiloco

import (
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// Only a peer that has the run's final model says that it has ended, without more.
func TestPhasesOfTheEnd(t *testing.T) {
	for want, c := range map[Phase]struct {
		view membership.View
		part string
	}{
		PhaseEnded:            {membership.View{Ending: membership.EndsAsRun}, "applied and agreed"},
		PhaseEndedProvisional: {membership.View{Ending: membership.EndsProvisional}, "that may still end for another"},
		PhaseEndedMissed:      {membership.View{Missed: true}, ""},
	} {
		if got, detail := phaseOf(c.view, 1); got != want || !strings.Contains(detail, c.part) {
			t.Errorf("%v, %q: want %v", got, detail, want)
		}
	}
}

// A peer that does not train says what it waits for, until nothing is in its way.
func TestWhatAPeerWaitsFor(t *testing.T) {
	v := membership.View{Diverged: true}
	for _, c := range []struct {
		passes func()
		want   Phase
		part   string
	}{
		{func() {}, PhaseJoining, "fetching it anew"},
		{func() { v.Diverged = false }, PhaseSearching, "no record of the run is known yet"},
		{func() { v.Tip.Height = 1 }, PhaseJoining, "asking to be a member"},
		{func() { v.IsMember = true }, PhaseJoining, "fetching the chain and the state"},
		{func() { v.Synced, v.Paused = true, true }, PhasePaused, "too few voting members answer"},
		{func() { v.Paused = false }, PhaseWaiting, "waits for start_peers members"},
		{func() { v.Members = make([]membership.MemberView, 2) }, PhaseRunning, ""},
		{func() { v.AppliedSlot, v.Members = 1, v.Members[:1] }, PhaseRunning, ""},
	} {
		c.passes()
		got, detail := phaseOf(v, 2)
		if got != c.want || !strings.Contains(detail, c.part) || (detail == "") != (c.part == "") {
			t.Errorf("%s: %q, want %s: %q", got, detail, c.want, c.part)
		}
	}
}

// A member is called by what is wrong with it, whatever else it does.
func TestStatesOfMembers(t *testing.T) {
	var v membership.View
	m := membership.MemberView{Member: slot.Member{Peer: "them"}}
	for _, c := range []struct {
		becomes func()
		want    string
	}{
		{func() {}, "idle"},
		{func() { m.Seat = 1 }, "voting"},
		{func() { m.Contributes = true }, "training"},
		{func() { v.Members, v.Offered = make([]membership.MemberView, 3), []slot.PeerID{"a", "b"} }, "late"},
		{func() { v.Offered[1] = "them" }, "offered"},
		{func() { v.Offered, v.Plan = v.Offered[:1], &slot.Plan{} }, "late"},
		{func() { m.Leaving = true }, "leaving"},
		{func() { m.Fault = "votes for nothing" }, "mute"},
		{func() { m.Lost = true }, "missing"},
		{func() { m.Evicted = true }, "evicted"},
	} {
		c.becomes()
		if got := memberStatus("us", v, m); got.State != c.want {
			t.Errorf("%+v is %s, want %s", m, got.State, c.want)
		}
	}
}
