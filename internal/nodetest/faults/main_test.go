package faults

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

type (
	swarm    = nodetest.Swarm
	peer     = nodetest.Peer
	scenario = nodetest.Scenario
)

// adam gives a run an outer optimizer whose steps depend on two vectors of state, and on how many
// there have been. Modes eager and async have no Adam.
func adam(s *p2pdiloco.Spec) {
	if s.Mode != p2pdiloco.ModeEager && s.Mode != p2pdiloco.ModeAsync {
		s.Outer = outeropt.Adam
	}
}

// delayed gives a run an outer optimizer whose state counts contributions: after most slots some
// are open. In mode streaming it is Adam.
func delayed(s *p2pdiloco.Spec) {
	if s.Outer, s.DNEvery = outeropt.DelayedNesterov, 7; s.Mode == p2pdiloco.ModeStreaming {
		s.Outer, s.DNEvery = outeropt.Adam, 0
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
