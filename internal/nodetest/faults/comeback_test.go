package faults

import (
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// awayRun is the run of these tests: 12 slots.
func awayRun(peers int, trusts string) scenario {
	return scenario{Slots: 12, Peers: peers, Trusts: trusts}
}

// final returns the state root of the run's last slot, of which all given peers must have the same.
func final(s *swarm, peers ...*peer) p2pdiloco.Root {
	s.T.Helper()
	want := peers[0].States()[s.Spec.LastSlot()]
	for _, p := range peers {
		if got := p.States()[s.Spec.LastSlot()]; got.IsZero() || got != want {
			s.T.Errorf("host %d ends with state root %s, host %d with %s", p.Host, got.Short(), peers[0].Host,
				want.Short())
		}
	}
	return want
}

// A member is killed, or falls asleep, at slot 9 of 12. The others finish and go on serving. It
// comes back after the end, trains nothing alone, and ends with their model.
func TestAMemberThatWasAwayAtTheEnd(t *testing.T) {
	kill := func(s *swarm, p *peer) { s.Kill(p) }
	restart := func(s *swarm, p *peer) { s.Restart(p) }
	for name, a := range map[string]absence{
		"killed": {false, kill, restart},
		"asleep": {false, (*swarm).Freeze, (*swarm).Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			nodetest.Play(t, awayRun(4, ""), func(s *swarm) {
				away := s.Peers[2]
				s.Start(s.Peers...)
				s.Reach(9, s.Peers...)
				a.gone(s, away)
				s.Reach(12, s.But(away)...)
				time.Sleep(10 * time.Second)
				a.back(s, away)
				s.Finish(time.Minute, s.Peers...)
				final(s, s.Peers...)
				if away.Had("run.forked") {
					s.T.Errorf("it forked: %v", away.Events("run.forked"))
				}
			})
		})
	}
}

// All others have ended and gone when a member of slot 9 comes back. Where a crash is all that may
// happen, it goes on alone after a while, and says at its end that this is a branch of its own.
// Then all four start again, and it ends with the model of the run.
func TestAMemberThatComesBackToNobody(t *testing.T) {
	for _, trust := range []string{"crash", "byzantine"} {
		t.Run(trust, func(t *testing.T) {
			nodetest.Play(t, awayRun(4, trust), func(s *swarm) {
				away := s.Peers[2]
				others := s.But(away)
				s.Start(s.Peers...)
				s.Reach(9, s.Peers...)
				s.Kill(away)
				s.Finish(2*time.Minute, others...)
				s.Restart(away)
				time.Sleep(3 * time.Minute)
				st := away.Node.Load().Status()
				if st.Phase == p2pdiloco.PhaseEnded {
					s.T.Errorf("alone it says %s: %s", st.Phase, st.Detail)
				}
				if want := p2pdiloco.PhaseEndedProvisional; trust == p2pdiloco.TrustCrash && st.Phase != want {
					s.T.Errorf("alone it says %s, not %s: %s", st.Phase, want, st.Detail)
				}
				if trust == p2pdiloco.TrustByzantine && slices.Max(s.Contributions(away)) > 10 {
					s.T.Errorf("a minority went on alone: %v", s.Contributions(away))
				}
				if trust == p2pdiloco.TrustCrash {
					if err := s.Outcome(away, time.After(time.Second)); err != nil {
						s.T.Errorf("its process ended with %v", err)
					}
					s.Start(away)
				}
				s.Start(others...)
				s.Finish(2*time.Minute, s.Peers...)
				final(s, s.Peers...)
			})
		})
	}
}

// Some of seven cannot be reached during the last slot, which the others finish. They come back
// within the linger, and end with the others' model.
func TestSlowPeersAtTheEnd(t *testing.T) {
	nodetest.Play(t, awayRun(7, ""), func(s *swarm) {
		quorum := 4
		if s.Spec.Byzantine() {
			quorum = 5
		}
		quick, slow := s.Peers[:quorum], s.Peers[quorum:]
		s.Start(s.Peers...)
		s.Reach(11, s.Peers...)
		s.Cut(true, slow, quick)
		s.Reach(12, quick...)
		time.Sleep(10 * time.Second)
		s.Cut(false, slow, quick)
		s.Finish(2*time.Minute, s.Peers...)
		final(s, s.Peers...)
	})
}
