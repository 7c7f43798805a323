package p2pdiloco

import (
	"context"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// The plain types that users meet, under the names they import.
type (
	// PeerID is a libp2p peer ID in binary form; String prints it as libp2p does.
	PeerID = slot.PeerID
	// Root is a BLAKE3-256 hash: of a state, an outcome, a record or a run spec.
	Root = slot.Root
	// Tensor is one named tensor of the model.
	Tensor = slot.Tensor
	// Layout is the ordered list of tensors that make up the flat float32 parameter vector.
	Layout = slot.Layout
)

// Trainer owns the live model and does inner steps. A node calls it from one goroutine, one call at a time, and never
// keeps the slices it passes or is passed. It keeps its inner optimizer state across rounds.
type Trainer interface {
	// Layout is the model's tensors in flat order. It must not change.
	Layout() Layout
	// Init writes the initial parameters, D elements, into dst. It is asked for only where this peer founds the run.
	Init(ctx context.Context, dst []float32) error
	// Load replaces the live model's parameters by where the next inner steps start, D elements: the anchor, in an overlapped mode
	// (Spec.Mode) what is ahead of it, in mode streaming what was exported with a part of the anchor in it. Where that is not the anchor, a
	// trainer that can Evaluate is loaded with the anchor before.
	Load(ctx context.Context, start []float32) error
	// Train does task.Steps inner steps from the live parameters. It returns early with ctx's error when ctx ends.
	Train(ctx context.Context, task Task) (Stats, error)
	// Export writes the live parameters, D elements, into dst.
	Export(ctx context.Context, dst []float32) error
}

// What a Trainer may be able to do beyond that. A method may return errors.ErrUnsupported: the node then does without.

// Evaluator is a Trainer that can measure the live model on a held-out batch, the same on every peer.
type Evaluator interface {
	// Evaluate returns the mean held-out loss, in nats per token.
	Evaluate(ctx context.Context) (loss float64, err error)
}

// Saver is a Trainer that can keep its private state, the inner optimizer's and the place in the data, over a restart. The model is
// no part of it. A failure of either leaves the trainer as it was.
type Saver interface {
	// Save writes the state to a new file. The node calls it between rounds and puts the file in place of the last one.
	Save(ctx context.Context, path string) error
	// Restore reads such a file. The node calls it once, before the first Load, if its data directory has one.
	Restore(ctx context.Context, path string) error
}

// GradientExporter is a Trainer that hands out the pseudo-gradient itself: no second pass over the parameters is needed, and the
// node works on its first elements while the rest is on the way.
type GradientExporter interface {
	// ExportGradient writes start - live parameters, subtracted in float32, D elements, into dst. start is what was loaded last. It calls
	// ready for each range [begin, end) of dst that is done, in rising order and without gaps; an error of ready ends it.
	ExportGradient(ctx context.Context, start, dst []float32, ready func(begin, end int) error) error
}

// VectorMaker is a Trainer that brings the memory of the node's two working vectors, so that nothing has to be copied between the two.
type VectorMaker interface {
	// MakeVectors returns two vectors of n elements, which must stay until the node is closed. start is what Load is passed, local what
	// Export and ExportGradient are, and of each a part what LoadRange and ExportRange are.
	MakeVectors(n int) (start, local []float32, err error)
}

// RangeTrainer is a Trainer that hands out and takes parts of the live parameters: in mode streaming, where each slot updates a fragment of the
// model, nothing else is moved then. It has both methods or none (errors.ErrUnsupported).
type RangeTrainer interface {
	// LoadRange replaces the live parameters from element begin on by src. The rest stays as the inner steps have left it.
	LoadRange(ctx context.Context, begin int, src []float32) error
	// ExportRange writes the live parameters from element begin on into dst.
	ExportRange(ctx context.Context, begin int, dst []float32) error
}

// Task is one round of inner steps, or in mode streaming a part of one: those to the next border, in one piece or in two.
type Task struct {
	Slot    uint64   // the slot that this round contributes to, from 1
	Steps   int      // inner steps to do: H, in mode streaming those that are left to the border
	Delay   int      // in mode streaming: inner steps after a border at which its slot lands; else 0
	Seed    uint64   // of the run: the order of the data follows from it
	Self    PeerID   // this peer
	Members []PeerID // the run's members at this slot border, sorted

	// Part is the part of the data that is this round's: parts are numbered from 0 without an end, and each is enough for PartSteps steps
	// (docs/data.md). All peers agree who has which; no other peer has this one until it is known that no contribution came of it.
	Part      uint64
	PartSteps int    // H, 16 H where the pace is not steps, in mode streaming those from border to border
	Done      uint64 // steps of the part that were trained before: the task's go on behind them

	progress func(stepsDone int) // nil outside a node
}

// Report tells the node how many steps of the task are done, for status and so that the others know this peer is at work. Calling it
// after every step costs nothing.
func (t Task) Report(stepsDone int) {
	if t.progress != nil {
		t.progress(stepsDone)
	}
}

// Stats says what a round of inner steps did.
type Stats struct {
	Steps   int           // inner steps done
	Samples uint64        // samples processed
	Tokens  uint64        // tokens processed: the contribution's weight
	Loss    float64       // mean training loss over the steps, nats per token
	Elapsed time.Duration // time spent in the steps
	// GradNorm is the mean over the steps of the gradient's norm before it was clipped; 0 for unknown.
	GradNorm float64
}
