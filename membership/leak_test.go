package membership

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func init() { testutil.OneCPU() }

func TestMain(m *testing.M) {
	debug.SetGCPercent(300) // a tenth less CPU time, for some 300 MB
	goleak.VerifyTestMain(m)
}
