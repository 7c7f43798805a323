package builtin

import (
	"context"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// TrainTogether does the same inner steps of several peers' tasks as one trainer: at each step
// every task draws its share of the batch, and there is one optimizer step by the mean of their
// gradients. This is synchronous data-parallel training on the peers' data, with which DiLoCo is
// compared. Config.Batch counts the sequences of all tasks together, and is a multiple of their
// number. The tasks must ask for equally many steps. It ends early as Train does.
func (t *Trainer) TrainTogether(ctx context.Context, tasks []trainer.Task) (stats trainer.Stats, err error) {
	if len(tasks) == 0 || t.cfg.Batch%len(tasks) != 0 {
		return stats, fmt.Errorf("builtin trainer: a batch of %d sequences for %d tasks: give a multiple", t.cfg.Batch,
			len(tasks))
	}
	data := make([]*sampler, len(tasks))
	for i, task := range tasks {
		if task.Steps != tasks[0].Steps {
			return stats, fmt.Errorf("builtin trainer: tasks of %d and of %d steps cannot be trained together",
				tasks[0].Steps, task.Steps)
		}
		data[i] = newSampler(t.corpus, task, t.cfg.Batch/len(tasks), t.cfg.Context)
	}
	sum := 0.0
	for stats.Steps < tasks[0].Steps {
		if err := ctx.Err(); err != nil {
			return stats, err
		}
		loss, _, err := t.stepTogether(data)
		if err != nil {
			return stats, err
		}
		sum += loss
		stats.Steps++
		stats.Samples += uint64(t.cfg.Batch)
		stats.Tokens += uint64(t.cfg.Batch * t.cfg.Context)
		stats.Loss = sum / float64(stats.Steps)
	}
	return stats, nil
}

func (t *Trainer) stepTogether(data []*sampler) (loss, norm float64, err error) {
	var all batch
	for _, d := range data {
		d.draw(&t.drawn)
		all.inputs, all.targets = append(all.inputs, t.drawn.inputs...), append(all.targets, t.drawn.targets...)
	}
	t.drawn = all
	return t.descend()
}
