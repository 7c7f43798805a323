package disks

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

type (
	swarm = nodetest.Swarm
	peer  = nodetest.Peer
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
