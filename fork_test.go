package p2pdiloco

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// Four and four are cut apart for longer than it takes to fork. The side with the senior goes on, the other one forks and goes on,
// too; when they meet all end on one chain, with equal states.
func TestBothHalvesOfAPartitionGoOnAndMerge(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(26, 8), 8, func(s *swarm) {
		s.pace(100 * time.Millisecond)
		s.start(s.peers...)
		s.reach(1, s.peers...)
		senior := s.founder()
		rest := s.but(senior)
		here, there := append([]*simPeer{senior}, rest[:3]...), rest[3:]
		s.cut(true, here, there)
		s.until(time.Minute, "forked", func() bool { return there[0].had("run.forked") })
		at := there[0].applied()
		s.reach(at+1, there...)
		s.cut(false, here, there)
		s.finish(5*time.Minute, s.peers...)
		for _, p := range there {
			if len(p.events("run.switched")) != 1 {
				t.Errorf("host %d has given its branch up %d times", p.host, len(p.events("run.switched")))
			}
		}
		for _, p := range here {
			if p.had("run.switched") {
				t.Errorf("host %d has given up the branch of more work", p.host)
			}
		}
	})
}

// Five and three: the minority forks, and comes back.
func TestTheMinorityForksAndComesBack(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(24, 8), 8, func(s *swarm) {
		s.pace(100 * time.Millisecond)
		s.start(s.peers...)
		s.reach(1, s.peers...)
		senior := s.founder()
		minority := []*simPeer{senior, s.but(senior)[0], s.but(senior)[1]}
		majority := s.but(minority...)
		s.cut(true, minority, majority)
		s.until(time.Minute, "forked", func() bool { return minority[2].had("run.forked") })
		s.cut(false, minority, majority)
		s.finish(5*time.Minute, s.peers...)
	})
}

// All but two of five die at once, the founder among them, and never come back: the two go on to the end.
func TestTheLastTwoGoOn(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(6, 5), 5, func(s *swarm) {
		s.start(s.peers...)
		s.reach(2, s.peers...)
		dead := append([]*simPeer{s.founder()}, s.but(s.founder())[:2]...)
		alive := s.but(dead...)
		s.isolate(dead...)
		s.kill(dead...)
		s.finish(3*time.Minute, alive...)
		for _, p := range alive {
			if !p.had("run.forked") || !p.had("run.paused") {
				t.Errorf("host %d went on without a fork", p.host)
			}
		}
	})
}

// The last survivor of a run that pauses waits for an operator, says so, and goes on when it is told to. A peer that comes back then
// joins it.
func TestTheLastOneIsToldToGoOn(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(16, 3), 3, func(s *swarm) {
		s.pace(50 * time.Millisecond)
		for _, p := range s.peers {
			p.config = func(c *Config) { c.OnQuorumLoss = OnLossPause }
		}
		s.start(s.peers...)
		s.reach(2, s.peers...)
		last := s.but(s.founder())[0]
		dead := s.but(last)
		if err := last.node.Load().Recover(); !errors.Is(err, ErrQuorum) {
			t.Errorf("recovered while all were there: %v", err)
		}
		s.isolate(dead...)
		s.kill(dead...)
		s.until(time.Minute, "paused", func() bool { return last.had("run.paused") })
		time.Sleep(time.Minute)
		if st := last.node.Load().Status(); last.had("run.forked") || st.Phase != PhasePaused || st.Reason == "" {
			t.Fatalf("forked %v, phase %s, reason %q", last.had("run.forked"), st.Phase, st.Reason)
		}
		if err := last.node.Load().Recover(); err != nil {
			t.Fatal(err)
		}
		s.reach(last.applied()+2, last)
		s.restart(dead[0])
		s.finish(3*time.Minute, last, dead[0])
	})
}

// A partition comes and goes, along changing lines, each time about as long as it takes to fork.
func TestAFlappingPartition(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(40, 6), 6, func(s *swarm) {
		s.pace(150 * time.Millisecond)
		s.start(s.peers...)
		s.reach(1, s.peers...)
		for i, cut := range []time.Duration{24 * time.Second, 12 * time.Second, 26 * time.Second} {
			here := []*simPeer{s.peers[i], s.peers[(i+2)%6], s.peers[(i+3)%6]}
			s.cut(true, here, s.but(here...))
			time.Sleep(cut)
			s.cut(false, here, s.but(here...))
			time.Sleep(2 * time.Second)
		}
		s.finish(5*time.Minute, s.peers...)
		if !slices.ContainsFunc(s.peers, func(p *simPeer) bool { return p.had("run.forked") }) {
			t.Error("nobody ever forked")
		}
	})
}
