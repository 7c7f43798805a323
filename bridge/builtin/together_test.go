package builtin

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// One step together is a step by the mean of the gradients that the tasks' own data have.
func TestTogetherIsDataParallel(t *testing.T) {
	tasks := []trainer.Task{task(1, "a", 1), task(1, "b", 1)}
	alone := small
	alone.Clip, alone.Batch = -1, small.Batch/2
	var mean []float64
	for _, task := range tasks {
		tr := newTestTrainer(t, alone)
		train(t, tr, task)
		for i, g := range tr.model.grads.flat {
			if mean == nil {
				mean = make([]float64, len(tr.model.grads.flat))
			}
			mean[i] += float64(g) / 2
		}
	}
	both := small
	both.Clip = -1
	tr := newTestTrainer(t, both)
	stats, err := tr.TrainTogether(t.Context(), tasks)
	if err != nil || stats.Steps != 1 || stats.Tokens != uint64(small.Batch*small.Context) || stats.Loss <= 0 {
		t.Fatalf("%+v, %v", stats, err)
	}
	for i, g := range tr.model.grads.flat {
		if math.Abs(float64(g)-mean[i]) > 1e-6+1e-4*math.Abs(mean[i]) {
			t.Fatalf("element %d of the gradient is %v, the mean of the tasks' is %v", i, g, mean[i])
		}
	}
}

func TestTogetherRefuses(t *testing.T) {
	tr := newTestTrainer(t, small)
	for name, tasks := range map[string][]trainer.Task{
		"none": nil, "three": {task(1, "a", 1), task(1, "b", 1), task(1, "c", 1)},
		"unequal": {task(1, "a", 1), task(1, "b", 2)},
	} {
		if _, err := tr.TrainTogether(t.Context(), tasks); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A paced trainer's steps are due at equal distances, and it learns what it would otherwise. The
// bubble's clock stands still while there is something to compute.
func TestPace(t *testing.T) {
	free := newTestTrainer(t, small)
	train(t, free, task(1, "a", 4))
	synctest.Test(t, func(t *testing.T) {
		tr := newTestTrainer(t, small)
		tr.Pace(time.Minute)
		if stats := train(t, tr, task(1, "a", 4)); stats.Elapsed != 4*time.Minute || stats.Steps != 4 {
			t.Errorf("%+v", stats)
		}
		if a, b := export(t, free), export(t, tr); a[0] != b[0] || a[len(a)-1] != b[len(b)-1] {
			t.Error("pacing changes what is learnt")
		}
	})
}
