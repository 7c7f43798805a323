package nodetest

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// A peer that joins with a ticket and no preset takes the run's: with wan it would be taken for
// lost again and again, and never stay a member.
func TestANewcomerTakesTheRunsPreset(t *testing.T) {
	Once(t, 16, 2, func(s *Swarm) {
		s.Pace(200 * time.Millisecond) // 4 s a round: in most of it nothing is said but ALIVE
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		guest := s.Guest(s.Invite(s.Peers[0], p2pdiloco.InviteOptions{}))
		ticketed := guest.Config
		guest.Config = func(c *p2pdiloco.Config) { ticketed(c); c.Preset = "" }
		s.Start(guest)
		s.Until(time.Minute, "it contributed", func() bool { return s.ContributedAfter(guest, 0) })
		s.Kill(guest) // its data directory remembers
		guest.Config = func(c *p2pdiloco.Config) { c.Preset = "" }
		at := guest.Applied()
		s.Restart(guest)
		s.Finish(2*time.Minute, s.Peers...)
		if !s.ContributedAfter(guest, at+3) {
			t.Errorf("after a restart it contributed to slots %v, and none after %d", s.Contributions(guest), at+3)
		}
		if left := s.Peers[0].Events("peer.left"); len(left) > 1 {
			t.Errorf("it was taken for lost where it was not killed: %v", left)
		}
	})
}

// A preset that is given is kept, and both sides say that they differ.
func TestPresetsThatDifferAreSaid(t *testing.T) {
	Run(t, Spec(400, 1), 2, func(s *Swarm) {
		s.Pace(50 * time.Millisecond)
		logs := make([]Lines, 2)
		for i, p := range s.Peers {
			p.Config = func(c *p2pdiloco.Config) { c.Logger = slog.New(slog.NewTextHandler(&logs[i], nil)) }
		}
		other := s.Peers[1].Config
		s.Peers[1].Config = func(c *p2pdiloco.Config) { other(c); c.Preset = p2pdiloco.PresetWAN }
		s.Start(s.Peers[0])
		s.Reach(1, s.Peers[0])
		s.Start(s.Peers[1])
		s.Until(time.Minute, "both said so", func() bool {
			return strings.Contains(logs[0].String(), "here=lan there=wan") &&
				strings.Contains(logs[1].String(), "here=wan there=lan")
		})
		for i := range logs {
			if n := strings.Count(logs[i].String(), "another preset"); n != 1 {
				t.Errorf("host %d said it %d times", i, n)
			}
		}
	})
}
