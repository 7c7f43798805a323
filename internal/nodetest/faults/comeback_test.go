package faults

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

// trusts are both values of the spec's field.
var trusts = []string{p2pdiloco.TrustCrash, p2pdiloco.TrustByzantine}

// awaySpec is the run of these tests: 12 slots.
func awaySpec(trust string, startPeers uint64) p2pdiloco.Spec {
	spec := nodetest.Spec(12, startPeers)
	spec.Trust = trust
	return spec
}

// final returns the state root of the run's last slot, of which all given peers must have the same.
func final(s *nodetest.Swarm, peers ...*nodetest.Peer) p2pdiloco.Root {
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
	for i, trust := range trusts {
		for k, how := range []string{"killed", "asleep"} {
			if i != k && !testlevel.Nightly() {
				continue // each trust and each way once
			}
			t.Run(trust+"/"+how, func(t *testing.T) {
				nodetest.Run(t, 10*time.Millisecond, awaySpec(trust, 4), 4, func(s *nodetest.Swarm) {
					away := s.Peers[2]
					s.Start(s.Peers...)
					s.Reach(9, s.Peers...)
					if how == "killed" {
						s.Kill(away)
					} else {
						s.Freeze(away)
					}
					s.Reach(12, s.But(away)...)
					time.Sleep(10 * time.Second)
					if how == "killed" {
						s.Restart(away)
					} else {
						s.Thaw(away)
					}
					s.Finish(time.Minute, s.Peers...)
					final(s, s.Peers...)
					if away.Had("run.forked") {
						t.Errorf("it forked: %v", away.Events("run.forked"))
					}
				})
			})
		}
	}
}

// All others have ended and gone when a member of slot 9 comes back. Where a crash is all that may
// happen, it goes on alone after a while, and says at its end that this is a branch of its own.
// Then all four start again, and it ends with the model of the run.
func TestAMemberThatComesBackToNobody(t *testing.T) {
	for _, trust := range trusts {
		t.Run(trust, func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, awaySpec(trust, 4), 4, func(s *nodetest.Swarm) {
				away := s.Peers[2]
				others := s.But(away)
				s.Start(s.Peers...)
				s.Reach(9, s.Peers...)
				s.Kill(away)
				s.Finish(2*time.Minute, others...)
				s.Restart(away)
				time.Sleep(3 * time.Minute)
				st := away.Node.Load().Status()
				if away.Had("run.done") || st.Phase == p2pdiloco.PhaseEnded {
					t.Errorf("alone it says %s: %s", st.Phase, st.Detail)
				}
				if want := p2pdiloco.PhaseEndedBranch; trust == p2pdiloco.TrustCrash && st.Phase != want {
					t.Errorf("alone it says %s, not %s: %s", st.Phase, want, st.Detail)
				}
				if trust == p2pdiloco.TrustByzantine && slices.Max(s.Contributions(away)) > 10 {
					t.Errorf("a minority went on alone: %v", s.Contributions(away))
				}
				if trust == p2pdiloco.TrustCrash {
					if err := s.Outcome(away, time.After(time.Second)); !errors.Is(err, p2pdiloco.ErrBranchEnded) {
						t.Errorf("its process ended with %v", err)
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

// Three of seven cannot be reached during the last slot, which the others finish. They come back
// within the linger, and end with the others' model.
func TestSlowPeersAtTheEnd(t *testing.T) {
	for _, trust := range trusts {
		t.Run(trust, func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, awaySpec(trust, 7), 7, func(s *nodetest.Swarm) {
				slow := s.Peers[4:]
				quick := s.But(slow...)
				cut := quick
				if trust == p2pdiloco.TrustByzantine { // five of seven are a quorum
					cut, slow = s.Peers[:5], s.Peers[5:]
				}
				s.Start(s.Peers...)
				s.Reach(11, s.Peers...)
				s.Cut(true, slow, cut)
				s.Reach(12, cut...)
				time.Sleep(10 * time.Second)
				s.Cut(false, slow, cut)
				s.Finish(2*time.Minute, s.Peers...)
				final(s, s.Peers...)
			})
		})
	}
}
