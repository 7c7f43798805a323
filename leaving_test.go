package p2pdiloco

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"
)

// leaveWhen drives a peer that runs until told, and then leaves as the command line does: Run's context ends, then Leave.
func leaveWhen(told <-chan struct{}) func(context.Context, *Node) error {
	return func(ctx context.Context, n *Node) error {
		running, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			select {
			case <-told:
				stop()
			case <-running.Done():
			}
		}()
		if err := n.Run(running); !errors.Is(err, context.Canceled) {
			return errors.Join(errors.New("Run was not ended by its context"), err)
		}
		return n.Leave(ctx)
	}
}

// A peer leaves while its contribution is being reduced: that counts still, and it leaves in the record after.
func TestAContributionOfferedBeforeLeavingCounts(t *testing.T) {
	for _, after := range []time.Duration{0, 30 * time.Millisecond, 80 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(5, 4), 4, func(s *swarm) {
				p := s.peers[2]
				told := make(chan struct{})
				p.drive = leaveWhen(told)
				p.on = func(e Event) {
					if e.Name == "slot.planned" && e.Fields["slot"] == uint64(3) {
						p.on = nil
						time.AfterFunc(after, func() { close(told) })
					}
				}
				s.start(s.peers...)
				if err := s.outcome(p, time.After(time.Minute)); err != nil {
					t.Errorf("Leave: %v", err)
				}
				s.finish(time.Minute, s.but(p)...)
				if got := s.contributions(p); !slices.Equal(got, []uint64{1, 2, 3}) {
					t.Errorf("the leaver contributed to slots %v, want 1, 2 and 3", got)
				}
				for _, q := range s.but(p) {
					if left := q.events("peer.left"); len(left) != 1 || left[0].Fields["detail"] != "left" || left[0].Fields["about"] != s.id(p) {
						t.Errorf("host %d: peer.left %v", q.host, left)
					}
					if q.had("peer.suspected") {
						t.Errorf("host %d suspects somebody: %v", q.host, q.events("peer.suspected"))
					}
				}
			})
		})
	}
}

// A peer leaves when it has offered and the others still train: it stays until its contribution is in a record.
func TestALeaverStaysUntilItsOfferCounts(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(5, 3), 3, func(s *swarm) {
		p := s.peers[1]
		s.pace(100 * time.Millisecond)
		p.trainer.(*bowl).pace = 10 * time.Millisecond
		told := make(chan struct{})
		p.drive = leaveWhen(told)
		s.start(s.peers...)
		s.until(time.Minute, "offered to slot 2", func() bool {
			n := p.node.Load()
			if n == nil {
				return false
			}
			own := n.driver.View().OwnOffer
			return own != nil && own.Slot == 2
		})
		close(told)
		if err := s.outcome(p, time.After(time.Minute)); err != nil {
			t.Errorf("Leave: %v", err)
		}
		s.finish(time.Minute, s.but(p)...)
		if got := s.contributions(p); !slices.Equal(got, []uint64{1, 2}) {
			t.Errorf("the leaver contributed to slots %v, want 1 and 2", got)
		}
	})
}

// All leave one after the other, the founder first; the last one alone.
func TestEverybodyLeaves(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(1000, 3), 3, func(s *swarm) {
		told := make(map[*simPeer]chan struct{})
		for _, p := range s.peers {
			told[p] = make(chan struct{})
			p.drive = leaveWhen(told[p])
		}
		s.start(s.peers...)
		s.reach(1, s.peers...)
		first := s.founder()
		for _, p := range append([]*simPeer{first}, s.but(first)...) {
			close(told[p])
			if err := s.outcome(p, time.After(30*time.Second)); err != nil {
				t.Errorf("host %d: Leave: %v", p.host, err)
			}
		}
		s.equal()
	})
}

// Without a quorum nobody can agree to a leave: who is left behind gets away all the same.
func TestLeavingAPausedRunEnds(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(1000, 3), 3, func(s *swarm) {
		told := make(chan struct{})
		for _, p := range s.peers {
			p.drive = leaveWhen(told)
		}
		s.start(s.peers...)
		s.reach(1, s.peers...)
		left := s.but(s.founder())[0]
		gone := s.but(left)
		s.isolate(gone...)
		s.kill(gone...)
		s.until(time.Minute, "paused", func() bool { return left.had("run.paused") })
		close(told)
		if err := s.outcome(left, time.After(5*time.Second)); err != nil {
			t.Errorf("Leave: %v", err)
		}
	})
}

// All leave at the same moment.
func TestEverybodyLeavesAtOnce(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(1000, 3), 3, func(s *swarm) {
		told := make(chan struct{})
		for _, p := range s.peers {
			p.drive = leaveWhen(told)
		}
		s.start(s.peers...)
		s.reach(1, s.peers...)
		close(told)
		for _, p := range s.peers {
			if err := s.outcome(p, time.After(30*time.Second)); err != nil {
				t.Errorf("host %d: Leave: %v", p.host, err)
			}
		}
	})
}

// Close returns whatever goes on, ends what waits, and may be called again.
func TestCloseAtAnyTime(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 2100 * time.Millisecond, 4 * time.Second, 5500 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(1000, 2), 2, func(s *swarm) {
				p := s.peers[0]
				s.start(s.peers...)
				s.until(time.Minute, "joined", func() bool { return p.node.Load() != nil })
				time.Sleep(after)
				n := p.node.Load()
				if err := errors.Join(n.Close(), n.Close()); err != nil {
					t.Errorf("Close: %v", err)
				}
				if err := <-p.done; !errors.Is(err, ErrClosed) || !errors.Is(err, net.ErrClosed) {
					t.Errorf("Run on a closed node: %v", err)
				}
				p.done <- nil
				if err := n.Sync(s.t.Context(), make([]float32, bowlElements), 1); after > 4*time.Second && !errors.Is(err, ErrClosed) {
					t.Errorf("Sync on a closed node: %v", err)
				}
				if _, err := n.Anchor(s.t.Context(), make([]float32, bowlElements)); !errors.Is(err, ErrClosed) {
					t.Errorf("Anchor on a closed node: %v", err)
				}
				if err := n.Leave(s.t.Context()); !errors.Is(err, ErrClosed) {
					t.Errorf("Leave on a closed node: %v", err)
				}
				if phase := n.Status().Phase; phase != PhaseClosed {
					t.Errorf("status says %q", phase)
				}
			})
		})
	}
}

// A Join that is given up leaves nothing behind.
func TestAJoinThatIsGivenUp(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(5, 1), 1, func(s *swarm) {
		s.net.Isolate(s.peers[0].host) // the bootstrap node does not answer: it keeps trying
		s.start(s.peers[0])
		time.Sleep(time.Minute)
		s.peers[0].cancel()
		if err := s.outcome(s.peers[0], time.After(time.Minute)); !errors.Is(err, context.Canceled) {
			t.Errorf("Join: %v", err)
		}
	})
}
