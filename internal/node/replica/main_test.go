package replica

import (
	"testing"

	"go.uber.org/goleak"

	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
