package faults

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// TestANewcomerLooksAroundBeforeItFounds: on a slow network, as on a busy machine, the bootstrap
// node answers, and what it knows of the run's peers comes later than the discovery window takes. A
// newcomer that founds then has a run of its own for good, beside one of the same name.
func TestANewcomerLooksAroundBeforeItFounds(t *testing.T) {
	nodetest.Run(t, nodetest.Spec(40, 1), 2, func(s *swarm) {
		s.Net.Latency = 500 * time.Millisecond
		s.Pace(300 * time.Millisecond)
		first, newcomer := s.Peers[0], s.Peers[1]
		s.Start(first)
		s.Reach(1, first)
		s.Start(newcomer)
		s.Until(2*time.Minute, "joined, or has founded", func() bool {
			return newcomer.Had("run.founded") || newcomer.Had("run.joined")
		})
		if newcomer.Had("run.founded") {
			t.Error("a newcomer has founded a second run")
		}
	})
}

// Peers that start at once end in one run, although two pairs of them can never connect, and status
// names who relays.
func TestPairsThatNeverConnectedFoundOneRun(t *testing.T) {
	t.Parallel()
	all := [][2][2]int{{{2, 4}, {1, 3}}, {{0, 1}, {2, 3}}, {{0, 3}, {1, 2}}}
	for _, cut := range all[:testutil.Choose(1, 1, 3)] {
		nodetest.RunNow(t, nodetest.Spec(6, 5), 5, func(s *swarm) {
			s.Net.Latency = 100 * time.Millisecond
			s.Pace(50 * time.Millisecond)
			for _, p := range s.Peers {
				p.Preset = p2pdiloco.PresetWAN
			}
			for _, pair := range cut {
				s.Net.Cut(s.Peers[pair[0]].Host, s.Peers[pair[1]].Host)
			}
			s.Start(s.Peers...)
			s.Reach(5, s.Peers...)
			oneRun(s)
			relayed(s, s.Peers[cut[0][0]], s.Peers[cut[0][1]])
			s.Finish(5*time.Minute, s.Peers...)
		})
	}
}

// oneRun wants all peers in one run.
func oneRun(s *swarm) {
	s.T.Helper()
	for _, p := range s.Peers {
		if a, b := p.Node.Load().RunID(), s.Peers[0].Node.Load().RunID(); a != b {
			s.T.Errorf("host %d is in the run %s, host %d in %s", p.Host, a.Short(), s.Peers[0].Host, b.Short())
		}
	}
}

// relayed checks that a peer's status says of one other that it is reached through a relay.
func relayed(s *swarm, p, apart *peer) {
	s.T.Helper()
	for _, m := range p.Node.Load().Status().Members {
		if !m.Self && (m.Path == nil || (m.Peer == s.ID(apart)) != (m.Path.Relay != "")) {
			s.T.Errorf("host %d reaches %s by %+v", p.Host, m.Peer.Short(), m.Path)
		}
	}
}

// Of three peers two do not see each other, and each of them founds the run. When the third has
// taken one of the two, the other one is given up, whether it comes late or not.
func TestTwoThatDoNotSeeEachOtherEndInOneRun(t *testing.T) {
	for name, late := range map[string]bool{"at once": false, "late": true} {
		t.Run(name, func(t *testing.T) {
			c := scenario{Slots: 30, Peers: 3, Start: 1, Modes: "sync", Pace: 50 * time.Millisecond}
			nodetest.Play(t, c, func(s *swarm) {
				a, between, c := s.Peers[0], s.Peers[1], s.Peers[2]
				s.Cut(true, []*peer{a}, []*peer{c})
				between.Troubled.Store(true) // one of the runs loses it
				s.Start(a, c)
				if late {
					s.Until(time.Minute, "founded twice", func() bool {
						return a.Had("run.founded") && c.Had("run.founded")
					})
				}
				s.Start(between)
				s.Reach(25, s.Peers...)
				oneRun(s)
				s.Finish(5*time.Minute, s.Peers...)
			})
		})
	}
}

// Two groups that cannot see each other found the same run; or two peers, each alone. When they
// meet, the chain of less work gives way.
func TestTwoFoundingsMeet(t *testing.T) {
	for name, large := range map[string]int{"three and two": 3, "one and one": 1} {
		t.Run(name, func(t *testing.T) {
			c := scenario{
				Slots: 16, Peers: max(2, 2*large-1), Start: 1, Modes: "sync", Trusts: "crash",
				Pace: 50 * time.Millisecond,
			}
			nodetest.Play(t, c, func(s *swarm) {
				large, small := s.Peers[:large], s.Peers[large:]
				s.Cut(true, large, small)
				s.Start(s.Peers...)
				s.Reach(3, s.Peers...)
				s.Cut(false, large, small)
				s.Finish(5*time.Minute, s.Peers...)
				switched := 0
				for _, p := range s.Peers {
					switched += len(p.Events("run.switched"))
				}
				if switched < len(small) || switched > len(large) {
					s.T.Errorf("%d peers gave their chain up: those of one side should", switched)
				}
			})
		})
	}
}
