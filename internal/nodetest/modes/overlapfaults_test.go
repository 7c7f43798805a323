package modes

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// eachMode runs a swarm in each overlapped mode; the others' tests are of mode sync.
func eachMode(t *testing.T, rounds, startPeers uint64, peers int, f func(s *nodetest.Swarm)) {
	t.Helper()
	for _, mode := range []string{p2pdiloco.ModeDelayed, p2pdiloco.ModeEager, p2pdiloco.ModeAsync} {
		t.Run(mode, func(t *testing.T) {
			spec := nodetest.Spec(rounds, startPeers)
			spec.Mode = mode
			nodetest.Run(t, 10*time.Millisecond, spec, peers, f)
		})
	}
}

// A reduction that takes less time than the inner steps holds nobody up; in mode sync 30% of the
// time goes that way, with 200 ms of inner steps and links of 10 ms. In virtual time; what is left
// is a link's delay now and then, for a peer that is ahead of the others.
func TestTrainersDoNotStallInOverlappedModes(t *testing.T) {
	for mode, stalls := range map[string]bool{
		p2pdiloco.ModeSync: true, p2pdiloco.ModeDelayed: false, p2pdiloco.ModeEager: false,
		p2pdiloco.ModeAsync: false,
	} {
		t.Run(mode, func(t *testing.T) {
			spec := nodetest.Spec(12, 4)
			spec.Mode = mode
			nodetest.Run(t, 10*time.Millisecond, spec, 4, func(s *nodetest.Swarm) {
				s.Start(s.Peers...)
				holdStall(s, stalls)
				s.Finish(time.Minute, s.Peers...)
			})
		})
	}
}

// holdStall checks from slot 3 to slot 11 whether trainers stand still for a quarter of the time,
// or for no more than a fiftieth.
func holdStall(s *nodetest.Swarm, stalls bool) {
	// the founder waits for the others, and is as far ahead of them then as can be
	s.Reach(3, s.Peers...)
	first := s.Statuses()
	s.Reach(11, s.Peers...)
	for i, last := range s.Statuses() {
		stall, training := last.Stall-first[i].Stall, last.Training-first[i].Training
		share := stall.Seconds() / (stall + training).Seconds()
		if stalls != (share > 0.25) || !stalls && share > 0.02 {
			s.T.Errorf("host %d stalled for %v and trained for %v", s.Peers[i].Host, stall, training)
		}
		s.T.Logf("host %d: stalled %v, trained %v: %.1f%%", s.Peers[i].Host, stall, training, 100*share)
	}
}

// The last contributions are reduced and applied before the run ends.
func TestNothingIsLostAtTheEnd(t *testing.T) {
	eachMode(t, 3, 3, 3, func(s *nodetest.Swarm) {
		s.Start(s.Peers...)
		s.Finish(time.Minute, s.Peers...)
		for _, p := range s.Peers {
			if got := s.Contributions(p); len(got) != 3 {
				s.T.Errorf("host %d contributed to %v", p.Host, got)
			}
		}
	})
}

// A straggler whose slots close without it starts from the newest anchor each time, and stays a
// member.
func TestAStragglerInThePipeline(t *testing.T) {
	eachMode(t, 5, 4, 4, func(s *nodetest.Swarm) {
		if s.Spec.Mode == p2pdiloco.ModeAsync {
			return // there it is given less to do: TestAPeerThatSlowsDownIsGivenLess
		}
		slow := s.Peers[1]
		s.Pace(20 * time.Millisecond)
		// 12 s a round; the grace window is 5 s
		slow.Trainer.(*nodetest.Bowl).Pace = 600 * time.Millisecond
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		if got := s.Contributions(slow); len(got) > 0 || slow.Had("peer.left") {
			s.T.Errorf("the straggler contributed to slots %v", got)
		}
		for _, p := range s.But(slow) {
			if got := s.Contributions(p); len(got) != 5 {
				s.T.Errorf("host %d contributed to slots %v, want all 5", p.Host, got)
			}
		}
	})
}

// Programs with loops of their own, by Sync and by Begin and Finish, among trainers; and a NaN,
// which spoils nothing.
func TestOwnLoopsInThePipeline(t *testing.T) {
	eachMode(t, 5, 3, 3, func(s *nodetest.Swarm) {
		s.Spec.MinPeers = 3
		s.OwnLoops(nodetest.Rounds(s.T))
		s.Peers[1].Main = func(ctx context.Context, n *p2pdiloco.Node) error { return withNaN(ctx, n, s, s.Peers[1]) }
		s.Peers[2].Config, s.Peers[2].Main = nil, nil
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		for _, p := range s.Peers {
			if n := len(s.Contributions(p)); n != 5 {
				s.T.Errorf("host %d contributed to %d slots of 5", p.Host, n)
			}
		}
	})
}

func withNaN(ctx context.Context, n *p2pdiloco.Node, s *nodetest.Swarm, p *nodetest.Peer) error {
	params := make([]float32, nodetest.BowlElements)
	_, err := n.Anchor(ctx, params)
	for err == nil {
		start := slices.Clone(params)
		params[7] = float32(math.NaN())
		if err := n.Sync(ctx, params, 1); !errors.Is(err, p2pdiloco.ErrNotFinite) {
			s.T.Errorf("Sync with a NaN: %v", err)
		}
		copy(params, start)
		p.Descend(params)
		err = n.Sync(ctx, params, 20)
	}
	return nodetest.Ended(err)
}

// A Sync that is given up parts the caller's vector from the node's start: only Anchor leads on.
func TestASyncThatIsGivenUpInThePipeline(t *testing.T) {
	eachMode(t, 4, 2, 2, func(s *nodetest.Swarm) {
		s.OwnLoops(func(ctx context.Context, n *p2pdiloco.Node, p *nodetest.Peer) error {
			params := make([]float32, nodetest.BowlElements)
			_, err := n.Anchor(ctx, params)
			for round := 0; err == nil; round++ {
				p.Descend(params)
				if p == s.Peers[0] && round == 1 {
					if err := n.Sync(nodetest.Expired(), params, 1); !errors.Is(err, context.Canceled) {
						s.T.Errorf("Sync with a context that has ended: %v", err)
					}
					if err := n.Sync(ctx, params, 20); !errors.Is(err, p2pdiloco.ErrNoAnchor) {
						s.T.Errorf("Sync after one that was given up: %v", err)
					}
					if _, err = n.Anchor(ctx, params); err != nil {
						break
					}
					p.Descend(params)
				}
				err = n.Sync(ctx, params, 20)
			}
			return nodetest.Ended(err)
		})
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
	})
}
