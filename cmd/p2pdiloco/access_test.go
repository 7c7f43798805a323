package main

import (
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A peer is named by its ID, or by the end of it, which is all that the table of the status shows.
// An ID that is no member's may be mistyped: then the wrong peer would be kept out, and the right
// one would stay.
func TestThePeerThatAMotionIsAbout(t *testing.T) {
	id := func(c string) p2pdiloco.PeerID { return p2pdiloco.PeerID(strings.Repeat(c, 38)) }
	a, b, left, removed := id("a"), id("b"), id("c"), id("d")
	s := p2pdiloco.Status{
		Run: "books", Members: []p2pdiloco.MemberStatus{{Peer: a}, {Peer: b}},
		Motions: []p2pdiloco.MotionStatus{{Action: "remove", Peer: a}, {Action: "rotate"}},
		Removed: []p2pdiloco.PeerID{removed},
	}
	remove, sure, readmit := motion{action: "remove"}, motion{action: "remove", yes: true}, motion{action: "readmit"}
	for _, c := range []struct {
		motion motion
		given  string
		want   p2pdiloco.PeerID
		fault  string
	}{
		{remove, a.String(), a, ""},
		{remove, b.Short(), b, ""},
		{remove, left.Short(), "", "nor the end of one that p2pdiloco status shows"},
		{remove, left.String(), "", "is no member of run books, and nothing was done"},
		{sure, left.String(), left, ""},
		{sure, left.Short(), "", "nor the end of one"},
		{readmit, removed.Short(), removed, ""},
		{readmit, left.String(), left, ""},
	} {
		got, err := c.motion.about(c.given, s)
		if got != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s %s: %s, %v", c.motion.action, c.given, got, err)
		}
	}
	if len(a.Short()) != shortName {
		t.Errorf("%s has not %d characters", a.Short(), shortName)
	}
}

// Two IDs may end alike: then neither is meant.
func TestTwoPeersOfOneShortName(t *testing.T) {
	var known []p2pdiloco.PeerID
	for _, text := range []string{"2ABCDEFGHJKLMNPQRSTUVWXYZ", "3ABCDEFGHJKLMNPQRSTUVWXYZ"} {
		p, err := slot.ParsePeerID(text)
		must(t, err)
		known = append(known, p)
	}
	if p, err := named("UVWXYZ", known); err == nil || !strings.Contains(err.Error(), known[0].String()) {
		t.Errorf("%s, %v", p, err)
	}
}

// Recover on a peer whose members can decide would say what it does, and ask for --yes, which the
// peer then refuses.
func TestNothingToRecoverFrom(t *testing.T) {
	for phase, want := range map[p2pdiloco.Phase]bool{
		p2pdiloco.PhaseRunning: true, p2pdiloco.PhaseWaiting: true, p2pdiloco.PhaseSearching: true,
		p2pdiloco.PhaseEnded: true, p2pdiloco.PhasePaused: false, p2pdiloco.PhaseJoining: false,
	} {
		if err := pointless(p2pdiloco.Status{Run: "books", Phase: phase}); (err != nil) != want {
			t.Errorf("%s: %v", phase, err)
		}
	}
}
