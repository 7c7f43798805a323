package builtin

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// sampler draws the training sequences of one task: samples without replacement, from a part of the
// data that no other peer has (docs/how-to/data.md). An epoch cuts the training text into windows,
// from an offset of its own, in an order of its own.
type sampler struct {
	corpus *Corpus
	task   trainer.Task
	batch  uint64 // sequences a step
	length uint64 // of a sequence
	step   uint64 // the next sequence of the part

	windows uint64 // in an epoch
	known   bool   // the fields below belong to epoch
	epoch   uint64
	offset  uint64 // of the first window
	order   permutation
}

// newSampler prepares the draw of batch sequences a step. In a task without data assignments
// (PartSteps 0) the sequences follow from slot and rank.
func newSampler(c *Corpus, task trainer.Task, batch, length int) *sampler {
	if task.PartSteps == 0 {
		task.PartSteps = max(1, task.Steps)
		task.Part = task.Slot*uint64(len(task.Members)) + uint64(max(0, slices.Index(task.Members, task.Self)))
	}
	return &sampler{
		corpus: c, task: task, batch: uint64(batch), length: uint64(length), step: task.Done,
		windows: uint64((len(c.train) - length) / length),
	}
}

// draw appends the next step's sequences to b.
func (s *sampler) draw(b *batch) {
	steps := uint64(s.task.PartSteps)
	place := (s.task.Part*steps + s.step%steps) * s.batch
	for i := range s.batch {
		b.appendWindow(s.corpus.train[s.window(place+i):], int(s.length))
	}
	s.step++
}

// window is where the sequence at a position begins.
func (s *sampler) window(place uint64) uint64 {
	if epoch := place / s.windows; !s.known || epoch != s.epoch {
		offset, keys := epochWords(s.task.Seed, epoch)
		s.known, s.epoch, s.offset = true, epoch, offset%s.length
		s.order = newPermutation(s.windows, keys)
	}
	return s.offset + s.order.apply(place%s.windows)*s.length
}
