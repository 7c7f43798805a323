package tcpnet

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func init() { testutil.OneCPU() }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
