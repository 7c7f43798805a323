package faults

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// A peer leaves while its contribution is being reduced: that counts still, and it leaves in the
// record after.
func TestAContributionOfferedBeforeLeavingCounts(t *testing.T) {
	for _, after := range []time.Duration{0, 30 * time.Millisecond, 80 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			nodetest.RunNow(t, 10*time.Millisecond, nodetest.Spec(5, 4), 4, func(s *nodetest.Swarm) {
				p := s.Peers[2]
				told := make(chan struct{})
				p.Main = nodetest.LeaveWhen(told)
				p.OnEvent = func(e p2pdiloco.Event) {
					if e.Name == "slot.planned" && e.Fields["slot"] == uint64(3) {
						p.OnEvent = nil
						time.AfterFunc(after, func() { close(told) })
					}
				}
				s.Start(s.Peers...)
				if err := s.Outcome(p, time.After(time.Minute)); err != nil {
					t.Errorf("Leave: %v", err)
				}
				s.Finish(time.Minute, s.But(p)...)
				if got := s.Contributions(p); !slices.Equal(got, []uint64{1, 2, 3}) {
					t.Errorf("the leaver contributed to slots %v, want 1, 2 and 3", got)
				}
				for _, q := range s.But(p) {
					if left := q.Events("peer.left"); len(left) != 1 || left[0].Fields["detail"] != "left" ||
						left[0].Fields["about"] != s.ID(p) {
						t.Errorf("host %d: peer.left %v", q.Host, left)
					}
					if q.Had("peer.suspected") {
						t.Errorf("host %d suspects somebody: %v", q.Host, q.Events("peer.suspected"))
					}
				}
			})
		})
	}
}

// A peer leaves when it has offered and the others still train: it stays until its contribution is
// in a record.
func TestALeaverStaysUntilItsOfferCounts(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(5, 3), 3, func(s *nodetest.Swarm) {
		p := s.Peers[1]
		s.Pace(100 * time.Millisecond)
		p.Trainer.(*nodetest.Bowl).Pace = 10 * time.Millisecond
		told := make(chan struct{})
		p.Main = nodetest.LeaveWhen(told)
		s.Start(s.Peers...)
		s.Until(time.Minute, "offered to slot 2", func() bool {
			l := p.Ledger()
			if l == nil {
				return false
			}
			own := l.View().OwnOffer
			return own != nil && own.Slot == 2
		})
		close(told)
		if err := s.Outcome(p, time.After(time.Minute)); err != nil {
			t.Errorf("Leave: %v", err)
		}
		s.Finish(time.Minute, s.But(p)...)
		if got := s.Contributions(p); !slices.Equal(got, []uint64{1, 2}) {
			t.Errorf("the leaver contributed to slots %v, want 1 and 2", got)
		}
	})
}

// All leave one after the other, the founder first; the last one alone.
func TestEverybodyLeaves(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(1000, 3), 3, func(s *nodetest.Swarm) {
		told := make(map[*nodetest.Peer]chan struct{})
		for _, p := range s.Peers {
			told[p] = make(chan struct{})
			p.Main = nodetest.LeaveWhen(told[p])
		}
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		first := s.Founder()
		for _, p := range append([]*nodetest.Peer{first}, s.But(first)...) {
			close(told[p])
			if err := s.Outcome(p, time.After(30*time.Second)); err != nil {
				t.Errorf("host %d: Leave: %v", p.Host, err)
			}
		}
		s.Equal()
	})
}

// Without a quorum nobody can agree to a leave. The peer that is left behind leaves all the same.
func TestLeavingAPausedRunEnds(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(1000, 3), 3, func(s *nodetest.Swarm) {
		told := make(chan struct{})
		for _, p := range s.Peers {
			p.Main = nodetest.LeaveWhen(told)
		}
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		left := s.But(s.Founder())[0]
		gone := s.But(left)
		s.Isolate(gone...)
		s.Kill(gone...)
		s.Until(time.Minute, "paused", func() bool { return left.Had("run.paused") })
		close(told)
		if err := s.Outcome(left, time.After(5*time.Second)); err != nil {
			t.Errorf("Leave: %v", err)
		}
	})
}

// All leave at the same moment.
func TestEverybodyLeavesAtOnce(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(1000, 3), 3, func(s *nodetest.Swarm) {
		told := make(chan struct{})
		for _, p := range s.Peers {
			p.Main = nodetest.LeaveWhen(told)
		}
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		close(told)
		for _, p := range s.Peers {
			if err := s.Outcome(p, time.After(30*time.Second)); err != nil {
				t.Errorf("host %d: Leave: %v", p.Host, err)
			}
		}
	})
}

// Close returns whatever goes on, ends what waits, and may be called again.
func TestCloseAtAnyTime(t *testing.T) {
	for _, after := range []time.Duration{
		0, time.Second, 2100 * time.Millisecond, 4 * time.Second,
		5500 * time.Millisecond,
	} {
		t.Run(after.String(), func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(1000, 2), 2, func(s *nodetest.Swarm) {
				p := s.Peers[0]
				s.Start(s.Peers...)
				s.Until(time.Minute, "joined", func() bool { return p.Node.Load() != nil })
				time.Sleep(after)
				n := p.Node.Load()
				if err := errors.Join(n.Close(), n.Close()); err != nil {
					t.Errorf("Close: %v", err)
				}
				if err := <-p.Done; !errors.Is(err, p2pdiloco.ErrClosed) || !errors.Is(err, net.ErrClosed) {
					t.Errorf("Run on a closed node: %v", err)
				}
				p.Done <- nil
				if err := n.Sync(s.T.Context(), make([]float32, nodetest.BowlElements), 1); after > 4*time.Second &&
					!errors.Is(err, p2pdiloco.ErrClosed) {
					t.Errorf("Sync on a closed node: %v", err)
				}
				if _, err := n.Anchor(s.T.Context(), make([]float32, nodetest.BowlElements)); !errors.Is(
					err,
					p2pdiloco.ErrClosed,
				) {
					t.Errorf("Anchor on a closed node: %v", err)
				}
				if err := n.Leave(s.T.Context()); !errors.Is(err, p2pdiloco.ErrClosed) {
					t.Errorf("Leave on a closed node: %v", err)
				}
				if phase := n.Status().Phase; phase != p2pdiloco.PhaseClosed {
					t.Errorf("status says %q", phase)
				}
			})
		})
	}
}

// A Join that is given up leaves nothing behind.
func TestAJoinThatIsGivenUp(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(5, 1), 1, func(s *nodetest.Swarm) {
		s.Net.Isolate(s.Peers[0].Host) // the bootstrap node does not answer: it keeps trying
		s.Start(s.Peers[0])
		time.Sleep(time.Minute)
		s.Peers[0].Cancel()
		if err := s.Outcome(s.Peers[0], time.After(time.Minute)); !errors.Is(err, context.Canceled) {
			t.Errorf("Join: %v", err)
		}
	})
}
