//go:build cgo && unix

package cgo

// #include <stdlib.h>
// #include "host.h"
import "C"

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Train does task.Steps inner steps. When ctx ends, it asks the library to end its run, and does
// not wait for that for long.
func (t *libraryTrainer) Train(ctx context.Context, task trainer.Task) (stats trainer.Stats, err error) {
	if !slices.Contains(task.Members, task.Self) || task.Steps < 1 {
		return stats, t.errorf("run: a task of %d steps for %s among %v", task.Steps, task.Self, task.Members)
	}
	defer t.follow(task)()
	doing := fmt.Sprintf("run for slot %d", task.Slot)
	err = t.cancellable(ctx, doing, func() (err error) {
		stats, err = t.run(doing, task)
		return err
	})
	if err != nil {
		return trainer.Stats{}, err
	}
	return stats, nil
}

// follow reports the steps that the library counts, until stop is called.
func (t *libraryTrainer) follow(task trainer.Task) (stop func()) {
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second / 4)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				task.Report(int(min(t.StepsDone(), uint64(task.Steps))))
			case <-stopped:
				return
			}
		}
	}()
	return func() {
		close(stopped)
		<-done
	}
}

// run makes the call. What it passes lies in C's memory, since it has pointers in it.
func (t *libraryTrainer) run(doing string, task trainer.Task) (trainer.Stats, error) {
	atomic.StoreUint64(t.record.word(stepsAt), 0)
	atomic.StoreUint64(t.record.word(wantedAt), uint64(task.Steps))
	defer atomic.StoreUint64(t.record.word(wantedAt), 0)
	texts := make([]string, len(task.Members))
	for i, id := range task.Members {
		texts[i] = id.String()
	}
	ids := C.CString(strings.Join(texts, "\x00"))
	defer C.free(unsafe.Pointer(ids))
	list := C.calloc(C.size_t(len(texts)), C.size_t(unsafe.Sizeof(ids)))
	defer C.free(list)
	at := unsafe.Pointer(ids)
	members := unsafe.Slice((**C.char)(list), len(texts))
	for i := range members {
		members[i], at = (*C.char)(at), unsafe.Add(at, len(texts[i])+1)
	}
	c := (*C.p2pdiloco_trainer_task)(C.calloc(1, C.sizeof_p2pdiloco_trainer_task))
	defer C.free(unsafe.Pointer(c))
	*c = C.p2pdiloco_trainer_task{
		size: C.sizeof_p2pdiloco_trainer_task, slot: C.uint64_t(task.Slot), steps: C.uint64_t(task.Steps),
		seed: C.uint64_t(task.Seed), rank: C.uint32_t(slices.Index(task.Members, task.Self)),
		member_count: C.uint32_t(len(texts)), members: (**C.char)(list),
		steps_done: (*C.uint64_t)(unsafe.Pointer(t.record.word(stepsAt))), part: C.uint64_t(task.Part),
		part_steps: C.uint64_t(task.PartSteps), done: C.uint64_t(task.Done), step: C.uint64_t(task.Step),
		total_steps: C.uint64_t(task.TotalSteps),
	}
	s := C.p2pdiloco_trainer_stats{size: C.sizeof_p2pdiloco_trainer_stats}
	code := C.host_run(t.api, t.trainer, c, &s)
	if code == C.P2PDILOCO_TRAINER_CANCELLED && t.cancelled.Load() {
		return trainer.Stats{}, context.Canceled
	}
	if err := t.must(doing, code); err != nil {
		return trainer.Stats{}, err
	}
	return t.stats(doing, &s, task.Steps)
}

// stats refuses statistics that cannot be.
func (t *libraryTrainer) stats(doing string, s *C.p2pdiloco_trainer_stats, asked int) (trainer.Stats, error) {
	loss, seconds := float64(s.loss), float64(s.seconds)
	problem := ""
	switch {
	case s.steps == 0 || uint64(s.steps) > uint64(asked):
		problem = fmt.Sprintf("it says that it did %d steps of %d: stats->steps must be those done", s.steps, asked)
	case s.tokens == 0:
		problem = "it says that it processed no tokens: stats->tokens is the contribution's weight, and must be " +
			"above 0 (samples will do)"
	case math.IsNaN(loss) || math.IsInf(loss, 0):
		problem = fmt.Sprintf("the training loss is %v: training diverged, take a lower learning rate", loss)
	case !(seconds >= 0 && seconds < 4e9):
		problem = fmt.Sprintf("it says that it took %v seconds: stats->seconds must be the time spent in the steps",
			seconds)
	}
	if problem != "" {
		return trainer.Stats{}, t.faulty(doing, "%s", problem)
	}
	norm := float64(s.gradient_norm)
	if !(norm >= 0) || math.IsInf(norm, 0) {
		norm = 0 // of a step that loss scaling skipped: it counts as unknown
	}
	return trainer.Stats{
		Steps: int(s.steps), Samples: uint64(s.samples), Tokens: uint64(s.tokens), Loss: loss,
		Elapsed: time.Duration(seconds * float64(time.Second)), GradNorm: norm,
	}, nil
}

// StepsDone is the number of steps that the library reports of its run, or of its last one.
func (t *libraryTrainer) StepsDone() uint64 { return t.record.steps() }
