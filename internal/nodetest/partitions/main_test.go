package partitions

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// crashSpec is nodetest.Spec with trust crash, for tests of what only that allows: that a few of
// the members go on without the others, and that foundings by different peers are one run.
func crashSpec(rounds, startPeers uint64) p2pdiloco.Spec {
	spec := nodetest.Spec(rounds, startPeers)
	spec.Trust = p2pdiloco.TrustCrash
	return spec
}

type (
	swarm = nodetest.Swarm
	peer  = nodetest.Peer
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
