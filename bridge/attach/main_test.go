//go:build unix

package attach

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func init() { testutil.OneCPU() }

// built has what tests compile.
var built string

func TestMain(m *testing.M) {
	testutil.Parallel(16)
	var err error
	if built, err = os.MkdirTemp("", "p2pdiloco-attach-test-"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(built)
		os.Exit(code)
	}))
}
