package p2pdiloco

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"
)

// eachMode runs a swarm in each overlapped mode; the others' tests are of mode sync.
func eachMode(t *testing.T, rounds, startPeers uint64, peers int, f func(s *swarm)) {
	t.Helper()
	for _, mode := range []string{ModeDelayed, ModeEager, ModeAsync} {
		t.Run(mode, func(t *testing.T) {
			spec := simSpec(rounds, startPeers)
			spec.Mode = mode
			inSim(t, 10*time.Millisecond, spec, peers, f)
		})
	}
}

// A reduction that takes less time than the inner steps holds nobody up; in mode sync 30% of the time goes that way, with 200 ms of inner steps
// and links of 10 ms. In virtual time; what is left is a link's delay now and then of who is ahead of the others.
func TestTrainersDoNotStallInOverlappedModes(t *testing.T) {
	for mode, stalls := range map[string]bool{ModeSync: true, ModeDelayed: false, ModeEager: false, ModeAsync: false} {
		t.Run(mode, func(t *testing.T) {
			spec := simSpec(12, 4)
			spec.Mode = mode
			inSim(t, 10*time.Millisecond, spec, 4, func(s *swarm) {
				s.start(s.peers...)
				s.holdStall(stalls)
				s.finish(time.Minute, s.peers...)
			})
		})
	}
}

// holdStall checks from slot 3 to slot 11 whether trainers stand still for a quarter of the time, or for no more than a fiftieth.
func (s *swarm) holdStall(stalls bool) {
	s.reach(3, s.peers...) // who founds the run waits for the others, and is as far ahead of them then as can be
	first := s.stalls()
	s.reach(11, s.peers...)
	for i, last := range s.stalls() {
		stall, training := last.Stall-first[i].Stall, last.Training-first[i].Training
		share := stall.Seconds() / (stall + training).Seconds()
		if stalls != (share > 0.25) || !stalls && share > 0.02 {
			s.t.Errorf("host %d stalled for %v and trained for %v", s.peers[i].host, stall, training)
		}
		s.t.Logf("host %d: stalled %v, trained %v: %.1f%%", s.peers[i].host, stall, training, 100*share)
	}
}

func (s *swarm) stalls() (all []Status) {
	for _, p := range s.peers {
		all = append(all, p.node.Load().Status())
	}
	return all
}

// The last contributions are reduced and applied before the run ends.
func TestNothingIsLostAtTheEnd(t *testing.T) {
	eachMode(t, 3, 3, 3, func(s *swarm) {
		s.start(s.peers...)
		s.finish(time.Minute, s.peers...)
		for _, p := range s.peers {
			if got := s.contributions(p); len(got) != 3 {
				s.t.Errorf("host %d contributed to %v", p.host, got)
			}
		}
	})
}

// A straggler whose slots close without it starts from the newest anchor each time, and stays a member.
func TestAStragglerInThePipeline(t *testing.T) {
	eachMode(t, 5, 4, 4, func(s *swarm) {
		if s.spec.Mode == ModeAsync {
			return // there it is given less to do: TestAPeerThatSlowsDownIsGivenLess
		}
		slow := s.peers[1]
		s.pace(20 * time.Millisecond)
		slow.trainer.(*bowl).pace = 600 * time.Millisecond // 12 s a round; the grace window is 5 s
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
		if got := s.contributions(slow); len(got) > 0 || slow.had("peer.left") {
			s.t.Errorf("the straggler contributed to slots %v", got)
		}
		for _, p := range s.but(slow) {
			if got := s.contributions(p); len(got) != 5 {
				s.t.Errorf("host %d contributed to slots %v, want all 5", p.host, got)
			}
		}
	})
}

// Programs with loops of their own, by Sync and by Begin and Finish, among trainers; and a NaN, which spoils nothing.
func TestOwnLoopsInThePipeline(t *testing.T) {
	eachMode(t, 5, 3, 3, func(s *swarm) {
		s.spec.MinPeers = 3
		s.embedded(rounds(s.t))
		s.peers[1].drive = func(ctx context.Context, n *Node) error { return withNaN(ctx, n, s, s.peers[1]) }
		s.peers[2].config, s.peers[2].drive = nil, nil
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
		for _, p := range s.peers {
			if n := len(s.contributions(p)); n != 5 {
				s.t.Errorf("host %d contributed to %d slots of 5", p.host, n)
			}
		}
	})
}

func withNaN(ctx context.Context, n *Node, s *swarm, p *simPeer) error {
	params := make([]float32, bowlElements)
	_, err := n.Anchor(ctx, params)
	for err == nil {
		start := slices.Clone(params)
		params[7] = float32(math.NaN())
		if err := n.Sync(ctx, params, 1); !errors.Is(err, ErrNotFinite) {
			s.t.Errorf("Sync with a NaN: %v", err)
		}
		copy(params, start)
		p.descend(params)
		err = n.Sync(ctx, params, 20)
	}
	return ended(err)
}

// A Sync that is given up parts the caller's vector from the node's start: only Anchor leads on.
func TestASyncThatIsGivenUpInThePipeline(t *testing.T) {
	eachMode(t, 4, 2, 2, func(s *swarm) {
		s.embedded(func(ctx context.Context, n *Node, p *simPeer) error {
			params := make([]float32, bowlElements)
			_, err := n.Anchor(ctx, params)
			for round := 0; err == nil; round++ {
				p.descend(params)
				if p == s.peers[0] && round == 1 {
					if err := n.Sync(expired(), params, 1); !errors.Is(err, context.Canceled) {
						s.t.Errorf("Sync with a context that has ended: %v", err)
					}
					if err := n.Sync(ctx, params, 20); !errors.Is(err, ErrNoAnchor) {
						s.t.Errorf("Sync after one that was given up: %v", err)
					}
					if _, err = n.Anchor(ctx, params); err != nil {
						break
					}
					p.descend(params)
				}
				err = n.Sync(ctx, params, 20)
			}
			return ended(err)
		})
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
	})
}
