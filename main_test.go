package p2pdiloco

import (
	"testing"

	"go.uber.org/goleak"

	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu" // see there
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
