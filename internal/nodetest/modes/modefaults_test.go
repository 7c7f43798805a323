package modes

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// eachFlow runs a swarm in each mode in which trainers go on beside a reduction, for so many slots,
// a multiple of 4.
func eachFlow(t *testing.T, slots, startPeers uint64, peers int, f func(s *nodetest.Swarm)) {
	t.Helper()
	eachMode(t, slots, startPeers, peers, f)
	t.Run(p2pdiloco.ModeStreaming, func(t *testing.T) { inStream(t, slots/4, startPeers, peers, f) })
}

// A joiner falls in: one state is fetched, it contributes, and the others wait for nothing.
func TestALateJoinerFallsIntoTheFlow(t *testing.T) {
	eachFlow(t, 48, 2, 3, func(s *nodetest.Swarm) {
		late := s.Peers[2]
		s.Start(s.But(late)...)
		s.Reach(5, s.Peers[0])
		s.Start(late)
		s.Finish(3*time.Minute, s.Peers...)
		if n := len(late.Events("state.synced")); n != 1 || !s.Contributed(late) {
			s.T.Errorf("the late joiner fetched %d states and contributed to %v", n, s.Contributions(late))
		}
	})
}

// A killed peer costs the others nothing, and carries on from the anchor when it is back.
func TestAKilledPeerComesBackIntoTheFlow(t *testing.T) {
	eachFlow(t, 20, 3, 4, func(s *nodetest.Swarm) {
		s.Start(s.Peers...)
		p := s.Peers[1]
		s.Reach(5, p)
		s.Stop(p)
		s.Reach(8, s.Peers[0])
		s.Start(p)
		s.Finish(3*time.Minute, s.Peers...)
		if !s.ContributedAfter(p, 8) {
			s.T.Errorf("it contributed to %v", s.Contributions(p))
		}
	})
}

// The leader dies while it plans, and when it has committed: the others train on meanwhile, and
// lose no slot.
func TestTheLeaderDiesInTheFlow(t *testing.T) {
	for _, event := range []string{"slot.planned", "slot.committed"} {
		t.Run(event, func(t *testing.T) {
			eachFlow(t, 8, 4, 4, func(s *nodetest.Swarm) {
				victim := s.WhenLeader(3, event, func(p *nodetest.Peer) { s.Net.Isolate(p.Host) })
				s.Start(s.Peers...)
				s.KillAndFinish(victim)
			})
		})
	}
}

// A peer that was cut off trains on into the void, and comes back: from the newest anchor if it
// missed more than a round in mode streaming.
func TestACutOffPeerComesBackIntoTheFlow(t *testing.T) {
	eachFlow(t, 24, 4, 4, func(s *nodetest.Swarm) {
		s.Start(s.Peers...)
		p := s.Peers[2]
		s.Reach(4, p)
		s.Net.Isolate(p.Host)
		s.Reach(10, s.Peers[0])
		s.Net.Rejoin(p.Host)
		s.Finish(5*time.Minute, s.Peers...)
		if !s.ContributedAfter(p, 10) {
			s.T.Errorf("it contributed to %v", s.Contributions(p))
		}
	})
}
