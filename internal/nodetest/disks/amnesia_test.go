package disks

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// All die, and the first to come back has lost its ledger: it must not found the run anew, but wait
// for the peers that remember.
func TestAPeerThatLostItsLedgerFoundsNothing(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(8, 3), 3, func(s *nodetest.Swarm) {
		s.Start(s.Peers...)
		s.Reach(3, s.Peers...)
		for _, p := range s.Peers {
			s.Stop(p)
		}
		forgetful := s.Founder()
		nodetest.Remove(t, forgetful, "ledger.log")
		founded := len(forgetful.Events("run.founded"))
		s.Start(forgetful)
		time.Sleep(time.Minute)
		if n := len(forgetful.Events("run.founded")); n > founded {
			t.Fatalf("it founded the run %d times more", n-founded)
		}
		s.Start(s.But(forgetful)...)
		s.Finish(2*time.Minute, s.Peers...) // also checks that every slot has one root
	})
}

// A peer loses its ledger while the others go on: it comes back as a new member.
func TestAPeerThatLostItsLedgerComesBackToALiveRun(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(24, 3), 3, func(s *nodetest.Swarm) {
		s.Pace(30 * time.Millisecond)
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		forgetful := s.But(s.Founder())[0]
		for range 2 { // the others have heard of more starts than the new ledger counts
			at := forgetful.Applied()
			s.Stop(forgetful)
			s.Start(forgetful)
			s.Until(time.Minute, "back", func() bool { return s.ContributedAfter(forgetful, at+1) })
		}
		at := forgetful.Applied()
		s.Stop(forgetful)
		nodetest.Remove(t, forgetful, "ledger.log")
		s.Start(forgetful)
		s.Finish(3*time.Minute, s.Peers...)
		if !s.ContributedAfter(forgetful, at+1) {
			t.Error("it never contributed again")
		}
		for _, p := range s.Peers {
			if p.Had("peer.cloned") {
				t.Errorf("host %d: %v", p.Host, p.Events("peer.cloned")[0].Fields)
			}
		}
	})
}
