package round

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// What a trainer calls a loss may be no number; a status must still be JSON.
func TestStatsAreJSON(t *testing.T) {
	var g gauges
	g.trained(trainer.Stats{Loss: math.NaN()})
	g.measured(3, math.Inf(1))
	if s := g.stats(); s.Loss != nil || s.TrainLoss != nil || s.LossSlot != 3 {
		t.Errorf("%+v", s)
	}
	g.trained(trainer.Stats{Loss: 2})
	g.measured(4, 1)
	if s := g.stats(); *s.Loss != 1 || *s.TrainLoss != 2 || s.LossSlot != 4 {
		t.Errorf("%+v", s)
	}
	if _, err := json.Marshal(g.stats()); err != nil {
		t.Error(err)
	}
}
