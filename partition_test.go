package p2pdiloco

import (
	"testing"
	"time"
)

// Two and three are cut apart: the three go on, the two wait, and all end alike.
func TestTheMinorityOfAPartitionWaits(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(16, 5), 5, func(s *swarm) {
		s.pace(50 * time.Millisecond)
		s.start(s.peers...)
		s.reach(2, s.peers...)
		senior := s.founder()
		minority := []*simPeer{senior, s.but(senior)[0]}
		majority := s.but(minority...)
		s.cut(true, minority, majority)
		s.until(time.Minute, "paused", func() bool { return minority[0].had("run.paused") && minority[1].had("run.paused") })
		at := minority[0].applied()
		s.reach(at+4, majority...)
		if now := minority[0].applied(); now != at {
			t.Errorf("two of five went from slot %d to %d on their own", at, now)
		}
		s.cut(false, minority, majority)
		s.finish(5*time.Minute, s.peers...)
		if !s.contributedAfter(senior, at+4) {
			t.Error("who was cut off never contributed again")
		}
	})
}

// Three and three: the half with the senior goes on.
func TestTheHalfWithTheSeniorGoesOnInAPartition(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(12, 6), 6, func(s *swarm) {
		s.pace(50 * time.Millisecond)
		s.start(s.peers...)
		s.reach(1, s.peers...)
		senior := s.founder()
		rest := s.but(senior)
		here, there := append([]*simPeer{senior}, rest[:2]...), rest[2:]
		s.cut(true, here, there)
		s.until(time.Minute, "paused", func() bool { return there[0].had("run.paused") })
		s.reach(there[0].applied()+3, here...)
		s.cut(false, here, there)
		s.finish(5*time.Minute, s.peers...)
	})
}

// Two members that cannot reach each other both reach the others (HOLES H21): nobody is dropped for it, and slots go on with both
// of them as members.
func TestTwoMembersThatCannotReachEachOther(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(12, 3), 3, func(s *swarm) {
		s.start(s.peers...)
		s.reach(2, s.peers...)
		a, c := s.peers[0], s.peers[2]
		s.net.Cut(a.host, c.host)
		s.finish(5*time.Minute, s.peers...)
		for _, p := range s.peers {
			for _, e := range p.events("peer.left") {
				t.Errorf("host %d: peer left: %v", p.host, e.Fields)
			}
		}
	})
}

// What one peer sends to another is lost, and nothing else.
func TestAOneWayCut(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(10, 4), 4, func(s *swarm) {
		s.start(s.peers...)
		s.reach(2, s.peers...)
		s.net.CutOneWay(s.peers[0].host, s.peers[1].host)
		s.finish(5*time.Minute, s.peers...)
	})
}

// A peer hears everybody and is heard by none.
func TestAPeerThatNobodyHears(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(16, 4), 4, func(s *swarm) {
		s.pace(50 * time.Millisecond)
		s.start(s.peers...)
		s.reach(2, s.peers...)
		mute := s.peers[3]
		for host := range s.net.Hosts {
			if host != mute.host {
				s.net.CutOneWay(mute.host, host)
			}
		}
		s.reach(6, s.but(mute)...)
		s.net.Rejoin(mute.host)
		s.finish(5*time.Minute, s.peers...)
	})
}
