package partitions

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// Two and three are cut apart: the three go on, the two wait, and all end alike.
func TestTheMinorityOfAPartitionWaits(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, crashSpec(16, 5), 5, func(s *swarm) {
		s.Pace(50 * time.Millisecond)
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		senior := s.Founder()
		minority := []*peer{senior, s.But(senior)[0]}
		majority := s.But(minority...)
		s.Cut(true, minority, majority)
		s.Until(time.Minute, "paused", func() bool {
			return minority[0].Had("run.paused") &&
				minority[1].Had("run.paused")
		})
		at := minority[0].Applied()
		s.Reach(at+4, majority...)
		if now := minority[0].Applied(); now != at {
			t.Errorf("two of five went from slot %d to %d on their own", at, now)
		}
		s.Cut(false, minority, majority)
		s.Finish(5*time.Minute, s.Peers...)
		if !s.ContributedAfter(senior, at+4) {
			t.Error("who was cut off never contributed again")
		}
	})
}

// Three and three: the half with the senior goes on.
func TestTheHalfWithTheSeniorGoesOnInAPartition(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, crashSpec(12, 6), 6, func(s *swarm) {
		s.Pace(50 * time.Millisecond)
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		senior := s.Founder()
		rest := s.But(senior)
		here, there := append([]*peer{senior}, rest[:2]...), rest[2:]
		s.Cut(true, here, there)
		s.Until(time.Minute, "paused", func() bool { return there[0].Had("run.paused") })
		s.Reach(there[0].Applied()+3, here...)
		s.Cut(false, here, there)
		s.Finish(5*time.Minute, s.Peers...)
	})
}

// Two members that cannot reach each other both reach the others (HOLES H21): nobody is dropped for
// it, and slots go on with both of them as members.
func TestTwoMembersThatCannotReachEachOther(t *testing.T) {
	nodetest.Once(t, 12, 3, func(s *swarm) {
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		a, c := s.Peers[0], s.Peers[2]
		s.Net.Cut(a.Host, c.Host)
		s.Finish(5*time.Minute, s.Peers...)
		for _, p := range s.Peers {
			for _, e := range p.Events("peer.left") {
				t.Errorf("host %d: peer left: %v", p.Host, e.Fields)
			}
		}
	})
}

// What one peer sends to another is lost, and nothing else.
func TestAOneWayCut(t *testing.T) {
	nodetest.Once(t, 10, 4, func(s *swarm) {
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		s.Net.CutOneWay(s.Peers[0].Host, s.Peers[1].Host)
		s.Finish(5*time.Minute, s.Peers...)
	})
}

// A peer hears everybody and is heard by none.
func TestAPeerThatNobodyHears(t *testing.T) {
	nodetest.Once(t, 16, 4, func(s *swarm) {
		s.Pace(50 * time.Millisecond)
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		mute := s.Peers[3]
		for host := range s.Net.Hosts {
			if host != mute.Host {
				s.Net.CutOneWay(mute.Host, host)
			}
		}
		s.Reach(6, s.But(mute)...)
		s.Net.Rejoin(mute.Host)
		s.Finish(5*time.Minute, s.Peers...)
	})
}
