package attach

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/box"
	"github.com/p2pdiloco/p2pdiloco/internal/hashtree"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Ranks that outlive their node keep their inner steps:
//
//	node: LOAD, TRAIN; while the ranks train, it hashes start and leaves the mark in start's words
//	node: killed. The memory lives on with the ranks that map it
//	rank: HELLO with the mark and the steps done since that LOAD
//	node: comes back, with its state from disk; its first LOAD is of the very same bits: LOAD keep
//	rank: leaves its parameters as they are
//	node: TRAIN of the steps that are left; none are left: EXPORT
//
// The mark is of the bits, so what grew from another vector is never taken for a pseudo-gradient
// of this one: not after a slot that was applied meanwhile, nor on another branch, nor where some
// ranks had loaded and others had not.

// mark identifies a vector.
type mark [32]byte

func (m mark) String() string { return hex.EncodeToString(m[:]) }

// markPiece is how many elements are hashed between two looks whether to stop.
const markPiece = 1 << 18

// markOf hashes a vector. It returns false if it was stopped.
func markOf(v []float32, stop *atomic.Bool) (m mark, ok bool) {
	var sums []byte
	for len(v) > 0 {
		if stop.Load() {
			return m, false
		}
		n := min(markPiece, len(v))
		sum := hashtree.Sum256(unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*n))
		sums, v = append(sums, sum[:]...), v[n:]
	}
	return hashtree.Sum256(sums), true
}

// leave writes the mark of a generation to start's words, the generation last: a mark that is not
// whole is of none.
func (s *shared) leave(m mark, generation uint64) {
	for i := range len(m) / 8 {
		s.start.Word(uint64(markWord + 8*i)).Store(binary.LittleEndian.Uint64(m[8*i:]))
	}
	s.start.Word(markedWord).Store(generation)
}

// KeepSteps says whether ranks that outlive the node keep their inner steps. They may where a
// contribution counts in the slot after its start or not at all. Else one that the node had
// offered before it was killed could count in that slot, and the steps in it once more in a later
// one.
func (t *Trainer) KeepSteps(keep bool) { t.keeps = keep }

// marks hashes start beside the inner steps that grow from it. The function that it returns ends
// that: after it start may change.
func (t *Trainer) marks() (end func()) {
	if !t.keeps || !t.whole {
		return func() {}
	}
	var stop atomic.Bool
	var hashing sync.WaitGroup
	m := &t.loop.memory
	generation := m.start.Word(loadsWord).Load()
	if m.start.Word(markedWord).Load() == generation {
		return func() {}
	}
	hashing.Go(func() {
		if sum, ok := markOf(t.start, &stop); ok {
			m.leave(sum, generation)
		}
	})
	return func() {
		stop.Store(true)
		hashing.Wait()
	}
}

// outlived says whether the ranks of a set that has come hold inner steps that grew from a vector,
// and its mark.
func (t *Trainer) outlived(start []float32) (m mark, yes bool) {
	held := t.loop.memory.held
	if !t.keeps || !t.fresh || held.Mark == "" || held.Steps == 0 {
		return m, false
	}
	m, _ = markOf(start, new(atomic.Bool))
	return m, m.String() == held.Mark
}

// keep takes over the steps of ranks that have outlived a node.
func (t *Trainer) keep() {
	t.fresh = false // their private state is newer than any that was saved
	t.kept = t.loop.memory.held
	t.cfg.Notice(fmt.Sprintf("the trainer has outlived the node: it keeps the %d inner steps that it had done",
		t.kept.Steps))
}

// goOn has the ranks do what is left of a task. The loss of the steps before is not known.
func (t *Trainer) goOn(ctx context.Context, task trainer.Task) (trainer.Stats, error) {
	kept := t.kept
	t.kept = box.Held{}
	done := int(min(kept.Steps, math.MaxInt32))
	task.Report(done)
	if done >= task.Steps {
		t.exported = false // local is a new one
		return trainer.Stats{Steps: done, Kept: done, Tokens: kept.Tokens, Loss: math.NaN()}, nil
	}
	rest := task.Piece(done, task.Steps)
	rest.Progress = func(more int) { task.Report(done + more) }
	stats, err := t.train(ctx, rest)
	if stats.Steps == 0 {
		stats.Loss = math.NaN()
	}
	stats.Steps, stats.Kept, stats.Tokens = stats.Steps+done, done, stats.Tokens+kept.Tokens
	return stats, err
}
