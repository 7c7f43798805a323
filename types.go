package p2pdiloco

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/spec"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// What a trainer is and is given: see package trainer, which is all that one needs to import.
type (
	// Trainer owns the live model and does inner steps.
	Trainer = trainer.Trainer
	// Evaluator is a Trainer that can measure the live model on a held-out batch.
	Evaluator = trainer.Evaluator
	// Saver is a Trainer that can keep its private state over a restart.
	Saver = trainer.Saver
	// GradientExporter is a Trainer that hands out the pseudo-gradient itself.
	GradientExporter = trainer.GradientExporter
	// VectorMaker is a Trainer that brings the memory of the node's two working vectors.
	VectorMaker = trainer.VectorMaker
	// RangeTrainer is a Trainer that hands out and takes parts of the live parameters.
	RangeTrainer = trainer.RangeTrainer
	// Task is one round of inner steps, or in mode streaming a part of one.
	Task = trainer.Task
	// Stats says what a round of inner steps did.
	Stats = trainer.Stats
	// PeerID is a libp2p peer ID in binary form; String prints it as libp2p does.
	PeerID = trainer.PeerID
	// Tensor is one named tensor of the model.
	Tensor = trainer.Tensor
	// Layout is the ordered list of tensors that make up the flat float32 parameter vector.
	Layout = trainer.Layout
)

// Root is a BLAKE3-256 hash: of a state, an outcome, a record or a run spec.
type Root = slot.Root

// The run spec: see package spec.
type (
	// Spec is the run spec: what all peers of a run must agree on.
	Spec = spec.Spec
	// SpecError says that a peer's run spec and the fields given here differ, or that a field has a
	// wrong value.
	SpecError = spec.Error
)

// Modes of a run (Spec.Mode).
const (
	ModeSync      = spec.ModeSync      // the trainer waits until its slot is applied
	ModeDelayed   = spec.ModeDelayed   // overlapped: the others' steps come a slot late
	ModeEager     = spec.ModeEager     // delayed, but the peer takes its own part at once
	ModeAsync     = spec.ModeAsync     // eager, and no slot waits for a slow peer
	ModeStreaming = spec.ModeStreaming // the model is reduced fragment after fragment
)

// Paces of a run (Spec.Pace): how many inner steps a peer does in a round.
const (
	PaceSteps    = spec.PaceSteps    // H, every peer
	PaceDyLU     = spec.PaceDyLU     // by the speeds in the records: the fastest peer does H
	PaceDeadline = spec.PaceDeadline // as many as fit into round_time
)

// Orders of a run's fragments (Spec.FragmentOrder).
const (
	OrderStrided    = spec.OrderStrided    // each fragment has layers of all depths
	OrderSequential = spec.OrderSequential // as the tensors lie
)

// Values of Spec.Access.
const (
	AccessOpen    = spec.AccessOpen    // everybody may take part
	AccessPrivate = spec.AccessPrivate // peers that were invited, or hold the admission secret
)

// Values of this version, as a spec spells them.
const (
	ProtocolVersion = spec.ProtocolVersion // wire and ledger rules
	KernelVersion   = spec.KernelVersion   // arithmetic
)

// Codecs are the values that Spec.Codec may have: f32 loses nothing, the others something, for
// fewer bytes (docs/protocol.md, section 5).
func Codecs() []string { return spec.Codecs() }

// ParseSpec reads a settled spec as another peer encoded it.
func ParseSpec(b []byte) (Spec, error) { return spec.Parse(b) }
