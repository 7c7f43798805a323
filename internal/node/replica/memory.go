package replica

import (
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// NodeMemory is how many bytes a node of a settled spec takes at its peak, beside its trainer's
// own. What does not grow with the model is the windows of frames and the program.
func NodeMemory(s spec.Spec) uint64 {
	const fixed = 128 << 20
	return LiveMemory(s) + GarbageBeside(vectorBytes(s)) + fixed
}

// MapsState says whether the anchor and the optimizer's vectors lie in files of the data directory,
// whose memory the system may take for others: in mode streaming, where a slot steps a part of them
// and everything else is as large as that part.
func MapsState(s spec.Spec) bool { return s.Mode == spec.ModeStreaming }

// LiveMemory is how many bytes the vectors take that lie in no file. TestMemoryOfANode measures
// them.
func LiveMemory(s spec.Spec) uint64 {
	used, err := codec.New(s.Codec)
	outcome, err2 := codec.NewOutcome(s.Codec, s.OutcomeCodec)
	if err = errors.Join(err, err2); err != nil {
		panic(err) // it is settled
	}
	d, part := vectorBytes(s), int(s.FragmentElements()[0])
	bytes := d + // the rounds' start
		// contributions: the next, and the one that is on its way or held up by a slow link
		2*uint64(used.EncodedSize(part)) +
		uint64(outcome.EncodedSize(part))
	if s.Mode != spec.ModeSync || used.Name != codec.F32 {
		bytes += d // the rounds' local: else the trainer exports to the contribution
	}
	if !MapsState(s) {
		bytes += d + outerState(s)
	}
	if used.Lossy() { // error feedback: the debt, and a residual
		bytes += d + 4*uint64(part)
	}
	if outcome.Lossy() { // the outcome as it is decoded
		bytes += 4 * uint64(part)
	}
	if s.Mode == spec.ModeEager || s.Mode == spec.ModeAsync { // the outer step of this peer's part
		bytes += outerState(s)
	}
	return bytes
}

// vectorBytes is D as float32.
func vectorBytes(s spec.Spec) uint64 { return 4 * s.Layout.Elements() }

// outerState is how many bytes the outer optimizer's vectors take.
func outerState(s spec.Spec) uint64 {
	outer, err := outeropt.New(s.OuterConfig(), 0)
	if err != nil {
		panic(err) // it is settled
	}
	return vectorBytes(s) * uint64(len(outer.State()))
}

// CheckMemory returns an error where a node of a settled spec needs more than a machine's memory,
// in bytes; 0: unknown. It names a mode that fits, if one does.
func CheckMemory(s spec.Spec, memory uint64) error {
	needs := NodeMemory(s)
	if memory == 0 || needs <= memory {
		return nil
	}
	text := fmt.Sprintf("a node of a model of %d elements needs %s, this machine or its cgroup has %s",
		s.Layout.Elements(), humanize.Bytes(needs), humanize.Bytes(memory))
	for n := max(2*s.Fragments, 2); n <= slot.MaxFragments; n *= 2 {
		other := s
		other.Mode, other.Fragments, other.FragmentDelay, other.Frame = spec.ModeStreaming, n, "", 0
		other = other.Settled()
		if least := NodeMemory(other); least <= memory && other.Validate() == nil {
			return fmt.Errorf("%s: a run with --mode streaming --fragments %d needs %s", text, n, humanize.Bytes(least))
		}
	}
	return errors.New(text)
}
