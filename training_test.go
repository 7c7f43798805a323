package p2pdiloco

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestEightPeersTrainOneModel(t *testing.T) {
	inSim(t, 20*time.Millisecond, simSpec(4, 8), 8, func(s *swarm) {
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
	})
}

func TestAPeerKilledInTheMiddleDoesNotStopTheOthers(t *testing.T) {
	for victim := range 4 { // the leader of the slot is among them
		t.Run(fmt.Sprint(victim), func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(5, 4), 4, func(s *swarm) {
				s.start(s.peers...)
				s.reach(2, s.peers[victim])
				s.stop(s.peers[victim])
				s.finish(2*time.Minute, slices.Delete(slices.Clone(s.peers), victim, victim+1)...)
			})
		})
	}
}

func TestALateJoinerGetsTheStateAndTakesPart(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(12, 2), 3, func(s *swarm) {
		s.start(s.peers...)
		s.reach(4, s.peers[0])
		late := s.add()
		s.start(late)
		s.finish(3*time.Minute, s.peers...)
		if !late.had("state.synced") || !late.had("run.joined") || !s.contributed(late) {
			t.Errorf("the late joiner synced: %v, joined: %v, contributed: %v", late.had("state.synced"), late.had("run.joined"), s.contributed(late))
		}
	})
}

func TestAPeerKilledAndRestartedCarriesOnAsTheSameMember(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(12, 3), 3, func(s *swarm) {
		s.start(s.peers...)
		p := s.peers[1]
		s.reach(3, p)
		s.stop(p)
		s.reach(5, s.peers[0])
		s.start(p)
		s.finish(3*time.Minute, s.peers...)
	})
}

func TestACutOffPeerComesBack(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(15, 4), 4, func(s *swarm) {
		s.start(s.peers...)
		p := s.peers[2]
		s.reach(3, p)
		s.net.Isolate(p.host)
		s.reach(6, s.peers[0])
		if p.applied() > 4 {
			t.Errorf("the isolated peer got to slot %d on its own", p.applied())
		}
		s.net.Rejoin(p.host)
		s.finish(5*time.Minute, s.peers...)
	})
}

// The bootstrap node may die: the run goes on, a restarted peer is found and finds the others, and a newcomer starts from
// any peer's.
func TestTheBootstrapNodeDies(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(12, 3), 3, func(s *swarm) {
		s.pace(30 * time.Millisecond)
		s.start(s.peers...)
		s.reach(2, s.peers...)
		s.net.Isolate(0)
		_ = s.boot.Close()
		p := s.peers[1]
		s.stop(p)
		s.reach(4, s.but(p)...)
		late := s.add()
		late.boot = s.peers[0].host
		s.net.Cut(0, late.host)
		s.start(p, late)
		s.finish(2*time.Minute, s.peers...)
		if !s.contributedAfter(p, 4) || !s.contributed(late) {
			t.Errorf("the restarted peer contributed to slots %v, the newcomer to %v", s.contributions(p), s.contributions(late))
		}
	})
}

func TestAPeerWithAnotherSpecIsToldWhichFieldDiffers(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(30, 1), 2, func(s *swarm) {
		s.start(s.peers[0])
		s.reach(1, s.peers[0])
		s.spec.InnerSteps = 99
		s.start(s.peers[1])
		err := s.outcome(s.peers[1], time.After(time.Minute))
		var differs *SpecError
		if !errors.As(err, &differs) || differs.Field != "inner_steps" || differs.There != "20" {
			t.Errorf("the stranger's error: %v", err)
		}
	})
}
