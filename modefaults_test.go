package p2pdiloco

import (
	"testing"
	"time"
)

// eachFlow runs a swarm in each mode in which trainers go on beside a reduction, for so many slots, a multiple of 4.
func eachFlow(t *testing.T, slots, startPeers uint64, peers int, f func(s *swarm)) {
	t.Helper()
	eachMode(t, slots, startPeers, peers, f)
	t.Run(ModeStreaming, func(t *testing.T) { inStream(t, slots/4, startPeers, peers, f) })
}

// A joiner falls in: one state is fetched, it contributes, and the others wait for nothing.
func TestALateJoinerFallsIntoTheFlow(t *testing.T) {
	eachFlow(t, 48, 2, 3, func(s *swarm) {
		late := s.peers[2]
		s.start(s.but(late)...)
		s.reach(5, s.peers[0])
		s.start(late)
		s.finish(3*time.Minute, s.peers...)
		if n := len(late.events("state.synced")); n != 1 || !s.contributed(late) {
			s.t.Errorf("the late joiner fetched %d states and contributed to %v", n, s.contributions(late))
		}
	})
}

// A killed peer costs the others nothing, and carries on from the anchor when it is back.
func TestAKilledPeerComesBackIntoTheFlow(t *testing.T) {
	eachFlow(t, 20, 3, 4, func(s *swarm) {
		s.start(s.peers...)
		p := s.peers[1]
		s.reach(5, p)
		s.stop(p)
		s.reach(8, s.peers[0])
		s.start(p)
		s.finish(3*time.Minute, s.peers...)
		if !s.contributedAfter(p, 8) {
			s.t.Errorf("it contributed to %v", s.contributions(p))
		}
	})
}

// The leader dies while it plans, and when it has committed: the others train on meanwhile, and lose no slot.
func TestTheLeaderDiesInTheFlow(t *testing.T) {
	for _, event := range []string{"slot.planned", "slot.committed"} {
		t.Run(event, func(t *testing.T) {
			eachFlow(t, 8, 4, 4, func(s *swarm) {
				victim := s.whenLeader(3, event, func(p *simPeer) { s.net.Isolate(p.host) })
				s.start(s.peers...)
				s.killAndFinish(victim)
			})
		})
	}
}

// A peer that was cut off trains on into the void, and comes back: from the newest anchor if it missed more than a round in mode streaming.
func TestACutOffPeerComesBackIntoTheFlow(t *testing.T) {
	eachFlow(t, 24, 4, 4, func(s *swarm) {
		s.start(s.peers...)
		p := s.peers[2]
		s.reach(4, p)
		s.net.Isolate(p.host)
		s.reach(10, s.peers[0])
		s.net.Rejoin(p.host)
		s.finish(5*time.Minute, s.peers...)
		if !s.contributedAfter(p, 10) {
			s.t.Errorf("it contributed to %v", s.contributions(p))
		}
	})
}
