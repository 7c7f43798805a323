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
	// Load replaces the live model's parameters by the anchor, D elements.
	Load(ctx context.Context, anchor []float32) error
	// Train does task.Steps inner steps from the live parameters. It returns early with ctx's error when ctx ends.
	Train(ctx context.Context, task Task) (Stats, error)
	// Export writes the live parameters, D elements, into dst.
	Export(ctx context.Context, dst []float32) error
}

// Evaluator is a Trainer that can measure the live model on a held-out batch, the same on every peer.
type Evaluator interface {
	// Evaluate returns the mean held-out loss, in nats per token.
	Evaluate(ctx context.Context) (loss float64, err error)
}

// Task is one round of inner steps.
type Task struct {
	Slot    uint64   // the slot that this round contributes to, from 1
	Steps   int      // inner steps to do (H)
	Seed    uint64   // of the run: data is divided into shards by it
	Self    PeerID   // this peer
	Members []PeerID // the run's members at this slot border, sorted: data shards follow from them

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
}
