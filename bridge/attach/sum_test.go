package attach

import (
	"math"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// One rank's NaN, as of a step that loss scaling skipped, does not take the other ranks' figures
// away. Where no rank has a loss there is none.
func TestFiguresOfManyRanks(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	got := sum([]wire.Message{
		&wire.Offer{Steps: 4, Tokens: 10, Loss: 2, GradNorm: 3, Seconds: 1},
		&wire.Offer{Steps: 4, Tokens: 50, Loss: nan, GradNorm: inf, Seconds: nan},
		&wire.Offer{Steps: 4, Tokens: 30, Loss: 4, GradNorm: nan, Seconds: 2},
	})
	want := trainer.Stats{Steps: 4, Tokens: 90, Loss: 3.5, GradNorm: 3, Elapsed: 2 * time.Second}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := sum([]wire.Message{&wire.Offer{Steps: 4, Tokens: 10, Loss: inf}}); !math.IsNaN(got.Loss) {
		t.Errorf("%+v", got)
	}
}
