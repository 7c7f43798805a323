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

// leaving lets peers of a swarm leave as the command line does. It returns what tells one to.
func leaving(s *swarm) func(p *peer) {
	told := make(map[*peer]chan struct{})
	for _, p := range s.Peers {
		told[p] = make(chan struct{})
		nodetest.LeaveWhen(told[p], p)
	}
	return func(p *peer) { close(told[p]) }
}

// left waits until peers that were told to leave have, and the others' runs have ended. The record
// after their last contributions, to these slots, says that they left.
func left(s *swarm, slots []uint64, peers ...*peer) {
	s.T.Helper()
	for _, p := range peers {
		if err := s.Outcome(p, time.After(time.Minute)); err != nil {
			s.T.Errorf("host %d: Leave: %v", p.Host, err)
		}
		if got := s.Contributions(p); slots != nil && !slices.Equal(got, slots) {
			s.T.Errorf("host %d left, and contributed to slots %v, want %v", p.Host, got, slots)
		}
	}
	rest := s.But(peers...)
	s.Finish(2*time.Minute, rest...)
	for _, p := range rest {
		gone := p.Events("peer.left")
		if len(gone) != len(peers) || slices.ContainsFunc(gone, func(e p2pdiloco.Event) bool {
			return e.Fields["reason"] != "left"
		}) || p.Had("peer.suspected") {
			s.T.Errorf("host %d: %v, suspected %v", p.Host, gone, p.Events("peer.suspected"))
		}
	}
}

// A peer leaves while its contribution is being reduced: that counts still, and it leaves in the
// record after.
func TestAContributionOfferedBeforeLeavingCounts(t *testing.T) {
	for _, after := range []time.Duration{0, 80 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			nodetest.Once(t, 5, 4, func(s *swarm) {
				p, leave := s.Peers[2], leaving(s)
				p.OnEvent = func(e p2pdiloco.Event) {
					if e.Name == "slot.planned" && e.Fields["slot"] == uint64(3) {
						p.OnEvent = nil
						time.AfterFunc(after, func() { leave(p) })
					}
				}
				s.Start(s.Peers...)
				left(s, []uint64{1, 2, 3}, p)
			})
		})
	}
}

// A peer leaves when it has offered and the others still train: it stays until its contribution is
// in a record.
func TestALeaverStaysUntilItsOfferCounts(t *testing.T) {
	nodetest.Once(t, 5, 3, func(s *swarm) {
		p, leave := s.Peers[1], leaving(s)
		s.Pace(100 * time.Millisecond)
		p.Trainer.(*nodetest.Bowl).Pace = 10 * time.Millisecond
		s.Start(s.Peers...)
		s.Until(time.Minute, "offered to slot 2", func() bool {
			l := p.Ledger()
			return l != nil && l.View().OwnOffer != nil && l.View().OwnOffer.Slot == 2
		})
		leave(p)
		left(s, []uint64{1, 2}, p)
	})
}

// The leader of the open height leaves: while nobody has offered, or with its plan out. The others
// go on without a pause.
func TestTheLeaderLeaves(t *testing.T) {
	for name, planned := range map[string]bool{"during inner steps": false, "in its slot": true} {
		t.Run(name, func(t *testing.T) {
			nodetest.Once(t, 6, 4, func(s *swarm) {
				s.Pace(30 * time.Millisecond)
				leave := leaving(s)
				victim := whenLeader(s, 3, "slot.planned", func(p *peer) {
					if planned {
						leave(p)
					}
				})
				s.Start(s.Peers...)
				if !planned {
					s.Reach(2, s.Peers...)
					s.Until(time.Minute, "nobody has offered", func() bool {
						v := s.Peers[0].Ledger().View()
						victim.Store(s.ByID(v.Leader))
						return v.Plan == nil && len(v.Offered) == 0
					})
					leave(victim.Load())
				}
				s.Until(time.Minute, "planned", func() bool { return victim.Load() != nil })
				left(s, nil, victim.Load())
			})
		})
	}
}

// All leave one after the other, the founder first, the last one alone; or all at the same moment.
func TestEverybodyLeaves(t *testing.T) {
	for name, pause := range map[string]time.Duration{"in turn": 30 * time.Second, "at once": 0} {
		t.Run(name, func(t *testing.T) {
			nodetest.Once(t, 1000, 3, func(s *swarm) {
				leave := leaving(s)
				s.Start(s.Peers...)
				s.Reach(1, s.Peers...)
				first := s.Founder()
				for _, p := range append([]*peer{first}, s.But(first)...) {
					leave(p)
					time.Sleep(pause)
				}
				left(s, nil, s.Peers...)
			})
		})
	}
}

// Without a quorum nobody can agree to a leave. The peer that is left behind leaves all the same.
func TestLeavingAPausedRunEnds(t *testing.T) {
	nodetest.Once(t, 1000, 3, func(s *swarm) {
		leave := leaving(s)
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		last := s.But(s.Founder())[0]
		gone := s.But(last)
		s.Isolate(gone...)
		s.Kill(gone...)
		s.Until(time.Minute, "paused", func() bool { return last.Had("run.paused") })
		leave(last)
		if err := s.Outcome(last, time.After(5*time.Second)); err != nil {
			t.Errorf("Leave: %v", err)
		}
	})
}

// Close returns whatever goes on, ends what waits, and may be called again.
func TestCloseAtAnyTime(t *testing.T) {
	for _, after := range []time.Duration{0, 2100 * time.Millisecond, 5500 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			nodetest.Once(t, 1000, 2, func(s *swarm) {
				p := s.Peers[0]
				s.Start(s.Peers...)
				s.Until(time.Minute, "joined", func() bool { return p.Node.Load() != nil })
				time.Sleep(after)
				n, params := p.Node.Load(), make([]float32, nodetest.BowlElements)
				if err := errors.Join(n.Close(), n.Close()); err != nil {
					t.Errorf("Close: %v", err)
				}
				err := <-p.Done
				p.Done <- nil
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("Run on a closed node: %v", err)
				}
				_, anchored := n.Anchor(s.T.Context(), params)
				for what, err := range map[string]error{
					"Run": err, "Anchor": anchored, "Leave": n.Leave(s.T.Context()),
				} {
					if !errors.Is(err, p2pdiloco.ErrClosed) {
						t.Errorf("%s on a closed node: %v", what, err)
					}
				}
				if err := n.Sync(s.T.Context(), params, 1); after > 4*time.Second &&
					!errors.Is(err, p2pdiloco.ErrClosed) {
					t.Errorf("Sync on a closed node: %v", err)
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
	nodetest.Once(t, 5, 1, func(s *swarm) {
		s.Net.Isolate(s.Peers[0].Host) // the bootstrap node does not answer: it keeps trying
		s.Start(s.Peers[0])
		time.Sleep(time.Minute)
		s.Peers[0].Cancel()
		if err := s.Outcome(s.Peers[0], time.After(time.Minute)); !errors.Is(err, context.Canceled) {
			t.Errorf("Join: %v", err)
		}
	})
}
