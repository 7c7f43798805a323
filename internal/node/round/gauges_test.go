package round

import (
	"context"
	"encoding/json"
	"math"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// numb is a trainer whose figures are no numbers.
type numb struct{ trainer.Trainer }

func (numb) Evaluate(context.Context) (float64, error) { return math.NaN(), nil }

// Nor does it keep trainer.stats from being JSON, which took the line from the file of events, and
// the report from the end of join --json: what is no number is missing.
func TestAnEventIsJSON(t *testing.T) {
	var told map[string]any
	m := &model{
		Trainer: numb{}, gauges: new(gauges), clock: new(clock), slots: 1,
		emit: func(_ string, fields map[string]any) { told = fields },
	}
	m.trained(trainer.Stats{Steps: 3, Tokens: 5, Loss: math.Inf(1), GradNorm: math.NaN()})
	if err := m.measure(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(told); err != nil || told["round"] != uint64(7) || told["tokens"] != uint64(5) {
		t.Errorf("%v: %v", told, err)
	}
	for _, name := range []string{"loss", "train_loss", "grad_norm"} {
		if v, ok := told[name]; ok {
			t.Errorf("%s is %v", name, v)
		}
	}
	m.trained(trainer.Stats{Steps: 3, Loss: 2, GradNorm: 4})
	if err := m.measure(t.Context(), 8); err != nil || told["train_loss"] != 2.0 || told["grad_norm"] != 4.0 {
		t.Errorf("%v: %v", told, err)
	}
}

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
