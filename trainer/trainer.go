package trainer

import (
	"context"
	"errors"
)

// ErrNotFinite is returned when a pseudo-gradient holds a NaN, an infinity, or a value of 2^100
// (about 1.3e30) or more in magnitude: such a contribution is never offered.
var ErrNotFinite = errors.New("p2pdiloco: the pseudo-gradient is not finite")

// Trainer owns the live model and does inner steps. A node calls it from one goroutine, one call at
// a time, and never keeps the slices it passes or is passed. It keeps its inner optimizer state
// across rounds.
type Trainer interface {
	// Layout is the model's tensors in flat order. It must not change.
	Layout() Layout
	// Init writes the initial parameters, D elements, into dst. It is called only where this peer
	// founds the run.
	Init(ctx context.Context, dst []float32) error
	// Load replaces the live model's parameters by start, D elements: the vector that the next
	// inner steps start from. In mode sync start is the anchor. In an overlapped mode (spec.Spec,
	// Mode) it is ahead of the anchor. In mode streaming it is what was exported, with a part of
	// the anchor in it. An Evaluator is to measure the anchor: where start is not the anchor, the
	// node loads the anchor before it calls Evaluate, and start after that.
	Load(ctx context.Context, start []float32) error
	// Train does task.Steps inner steps from the live parameters. It returns early with ctx's error
	// when ctx ends.
	Train(ctx context.Context, task Task) (Stats, error)
	// Export writes the live parameters, D elements, into dst.
	Export(ctx context.Context, dst []float32) error
}

// Evaluator is a Trainer that can measure the live model on a held-out batch, the same on every
// peer.
type Evaluator interface {
	// Evaluate returns the mean held-out loss, in nats per token.
	Evaluate(ctx context.Context) (loss float64, err error)
}

// Sampler is a Trainer whose live model can go on with a text. People ask for that on the
// dashboard. As for an Evaluator, the node loads the anchor before, and start after that.
type Sampler interface {
	// Sample returns what the model makes of a prompt. Its error goes to the person, and training
	// goes on, unless it is ErrAnew. errors.ErrUnsupported says that it cannot do that now.
	Sample(ctx context.Context, prompt string) (text string, err error)
}

// Bounds of what is asked and answered, in bytes of UTF-8.
const (
	MaxPrompt = 2 << 10
	MaxSample = 16 << 10
)

// Saver is a Trainer that can keep its private state over a restart: the inner optimizer's state
// and the position in the data. The model is no part of it. A call that fails leaves the trainer as
// it was.
type Saver interface {
	// Save writes the state to a new file. The node calls it before the first Train from an anchor,
	// and in mode sync after the last; if it takes longer than the steps, not in each round.
	Save(ctx context.Context, path string) error
	// Restore reads such a file: that of the anchor that is loaded next, or else the newest. The
	// node calls it once, before the first Load, if its data directory has one.
	Restore(ctx context.Context, path string) error
}

// StateKeeper is a Trainer that saves its private state by itself, at the beginning of each round,
// and takes it back with the anchor. A node does not use it as a Saver.
type StateKeeper interface {
	// BeginAt says from which anchor the next inner steps begin. It is called before the Load of
	// that anchor, and again before each Train.
	BeginAt(Anchor)
}

// Anchor says which anchor it is.
type Anchor struct {
	Slot uint64
	Root Root // of the state
	// how far the run is there, in inner steps, and where it ends
	Step, TotalSteps uint64
}

// GradientExporter is a Trainer that hands out the pseudo-gradient itself: no second pass over the
// parameters is needed, and the node works on its first elements while the rest is on the way.
type GradientExporter interface {
	// ExportGradient writes start - live parameters, subtracted in float32, D elements, into dst.
	// start is what was loaded last. It calls ready for each range [begin, end) of dst that is
	// done, in rising order and without gaps; an error of ready ends it.
	ExportGradient(ctx context.Context, start, dst []float32, ready func(begin, end int) error) error
}

// VectorMaker is a Trainer that brings the memory of the node's two working vectors, so that
// nothing has to be copied between the two.
type VectorMaker interface {
	// MakeVectors returns two vectors of n elements, which must stay until the node is closed. Load
	// is passed start, Export and ExportGradient are passed local. LoadRange and ExportRange are
	// passed a part of start and of local.
	MakeVectors(n int) (start, local []float32, err error)
}

// MemorySharer is a Trainer whose processes map memory of the node's.
type MemorySharer interface {
	// SharedBytes is how much that is, in bytes, each mapping counted once. It may be called from
	// any goroutine.
	SharedBytes() uint64
}

// RangeTrainer is a Trainer that hands out and takes parts of the live parameters. In mode
// streaming, where each slot updates a fragment of the model, nothing else is moved then. Either
// both methods work or both return errors.ErrUnsupported.
type RangeTrainer interface {
	// LoadRange replaces the live parameters from element begin on by src. The rest stays as the
	// inner steps have left it.
	LoadRange(ctx context.Context, begin int, src []float32) error
	// ExportRange writes the live parameters from element begin on into dst.
	ExportRange(ctx context.Context, begin int, dst []float32) error
}

// RangeGradientExporter is a RangeTrainer that hands out parts of the pseudo-gradient itself. Live
// parameters of few bits need that: what start loses in them is no part of the gradient, and only
// the trainer knows what that is.
type RangeGradientExporter interface {
	// ExportGradientRange writes start - live parameters of the elements from begin on into dst.
	// start is that part of the anchor, and both have as many elements as dst. With a fragment
	// alpha above 0 it is not what LoadRange has brought. Where the methods of RangeTrainer return
	// errors.ErrUnsupported, this one does, too.
	ExportGradientRange(ctx context.Context, begin int, start, dst []float32) error
}

// ErrAnew is returned by a Trainer whose live model is gone, and with it what was trained since the
// last Load. If it is a Returner, the node waits until it is back, and goes on from the newest
// anchor.
var ErrAnew = errors.New("p2pdiloco: the live model is gone")

// Returner is a Trainer whose live model may go while the peer stays: other processes hold it.
type Returner interface {
	// Return is called after a call that failed with ErrAnew or ErrNotFinite, which is why. What
	// was trained since the last Load is given up. Return waits until there is a live model again,
	// whose parameters the next Load replaces. Its error ends the node's Run.
	Return(ctx context.Context, why error) error
}
