package faults

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

func TestEightPeersTrainOneModel(t *testing.T) {
	nodetest.Run(t, 20*time.Millisecond, nodetest.Spec(4, 8), 8, func(s *nodetest.Swarm) {
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
	})
}

func TestAPeerKilledInTheMiddleDoesNotStopTheOthers(t *testing.T) {
	for victim := range 4 { // the leader of the slot is among them
		t.Run(fmt.Sprint(victim), func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(5, 4), 4, func(s *nodetest.Swarm) {
				s.Start(s.Peers...)
				s.Reach(2, s.Peers[victim])
				s.Stop(s.Peers[victim])
				s.Finish(2*time.Minute, slices.Delete(slices.Clone(s.Peers), victim, victim+1)...)
			})
		})
	}
}

func TestALateJoinerGetsTheStateAndTakesPart(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(12, 2), 3, func(s *nodetest.Swarm) {
		s.Start(s.Peers...)
		s.Reach(4, s.Peers[0])
		late := s.Add()
		s.Start(late)
		s.Finish(3*time.Minute, s.Peers...)
		if !late.Had("state.synced") || !late.Had("run.joined") || !s.Contributed(late) {
			t.Errorf("the late joiner synced: %v, joined: %v, contributed: %v", late.Had("state.synced"),
				late.Had("run.joined"), s.Contributed(late))
		}
	})
}

func TestAPeerKilledAndRestartedCarriesOnAsTheSameMember(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(12, 3), 3, func(s *nodetest.Swarm) {
		s.Start(s.Peers...)
		p := s.Peers[1]
		s.Reach(3, p)
		s.Stop(p)
		s.Reach(5, s.Peers[0])
		s.Start(p)
		s.Finish(3*time.Minute, s.Peers...)
	})
}

func TestACutOffPeerComesBack(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(15, 4), 4, func(s *nodetest.Swarm) {
		s.Start(s.Peers...)
		p := s.Peers[2]
		s.Reach(3, p)
		s.Net.Isolate(p.Host)
		s.Reach(6, s.Peers[0])
		if p.Applied() > 4 {
			t.Errorf("the isolated peer got to slot %d on its own", p.Applied())
		}
		s.Net.Rejoin(p.Host)
		s.Finish(5*time.Minute, s.Peers...)
	})
}

// The bootstrap node may die: the run goes on, a restarted peer is found and finds the others, and
// a newcomer starts from any peer's.
func TestTheBootstrapNodeDies(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(12, 3), 3, func(s *nodetest.Swarm) {
		s.Pace(30 * time.Millisecond)
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		s.Net.Isolate(0)
		_ = s.Boot.Close()
		p := s.Peers[1]
		s.Stop(p)
		s.Reach(4, s.But(p)...)
		late := s.Add()
		late.Boot = s.Peers[0].Host
		s.Net.Cut(0, late.Host)
		s.Start(p, late)
		s.Finish(2*time.Minute, s.Peers...)
		if !s.ContributedAfter(p, 4) || !s.Contributed(late) {
			t.Errorf("the restarted peer contributed to slots %v, the newcomer to %v", s.Contributions(p),
				s.Contributions(late))
		}
	})
}

func TestAPeerWithAnotherSpecIsToldWhichFieldDiffers(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(30, 1), 2, func(s *nodetest.Swarm) {
		s.Start(s.Peers[0])
		s.Reach(1, s.Peers[0])
		s.Spec.InnerSteps = 99
		s.Start(s.Peers[1])
		err := s.Outcome(s.Peers[1], time.After(time.Minute))
		var differs *p2pdiloco.SpecError
		if !errors.As(err, &differs) || differs.Field != "inner_steps" || differs.There != "20" {
			t.Errorf("the stranger's error: %v", err)
		}
	})
}
