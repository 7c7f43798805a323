//go:build unix

package attach

import (
	"testing"

	"go.uber.org/goleak"

	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

func TestMain(m *testing.M) {
	testlevel.Parallel(16)
	goleak.VerifyTestMain(m)
}
