package p2pdiloco

import (
	"testing"
	"time"
)

// A peer that trains makes claims at most every 10 s, and so does one that members have come to.
// Another one waits a minute.
func TestClaimsAreRare(t *testing.T) {
	training := []MemberStatus{{State: "voting"}, {State: "training", Self: true}}
	resting := []MemberStatus{{State: "training"}, {State: "voting", Self: true}}
	for name, c := range map[string]struct {
		now    []MemberStatus
		before int // members, when claims were made last
		phase  Phase
		wait   time.Duration
	}{
		"it trains":                       {training, 2, PhaseRunning, 10 * time.Second},
		"the first slot waits":            {training, 2, PhaseWaiting, time.Minute},
		"it votes alone":                  {resting, 2, PhaseRunning, time.Minute},
		"it votes, and somebody has come": {resting, 1, PhaseRunning, 10 * time.Second},
		"it looks for the run":            {nil, 0, PhaseSearching, time.Minute},
	} {
		const began = time.Hour
		tell := teller{claimed: Status{Uptime: began, Members: make([]MemberStatus, c.before)}}
		for after, want := range map[time.Duration]bool{0: false, c.wait - 1: false, c.wait: true, time.Hour: true} {
			if got := tell.due(Status{Uptime: began + after, Members: c.now, Phase: c.phase}); got != want {
				t.Errorf("%s: after %v it is due: %v", name, after, got)
			}
		}
	}
}

// The version of a program that was built from a commit is the commit.
func TestVersionOfACommit(t *testing.T) {
	for version, want := range map[string]string{
		"v0.0.0-20261129195000-b7959807abcd":         "b7959807abcd",
		"v0.4.2-0.20261129195000-b7959807abcd+dirty": "b7959807abcd",
		"v0.4.1": "v0.4.1", "v1.0.0-rc.1": "v1.0.0-rc.1", "": ProtocolVersion, "(devel)": ProtocolVersion,
	} {
		if got := shortVersion(version); got != want {
			t.Errorf("%q is shown as %q", version, got)
		}
	}
}
