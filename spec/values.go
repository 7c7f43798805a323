package spec

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// Modes of a run (Spec.Mode).
const (
	// ModeSync has the trainer wait until its slot is applied.
	ModeSync = "sync"
	// ModeDelayed is overlapped: a peer keeps its own progress, and the others' steps come a slot
	// late.
	ModeDelayed = "delayed"
	// ModeEager is overlapped: a peer takes its own part of the outer step at once, and the others'
	// parts a slot late.
	ModeEager = "eager"
	// ModeAsync is mode eager in which no slot waits for a slow peer. By default each peer does the
	// inner steps that its speed allows.
	ModeAsync = "async"
	// ModeStreaming reduces the model in parts: fragment after fragment, each beside the inner
	// steps that follow its border.
	ModeStreaming = "streaming"
)

// Paces of a run (Spec.Pace): how many inner steps a peer does in a round.
const (
	// PaceSteps is H for every peer.
	PaceSteps = "steps"
	// PaceDyLU is H for the fastest peer, and for the others as many as they do in that time, by
	// the speeds in the records.
	PaceDyLU = "dylu"
)

// Orders of a run's fragments (Spec.FragmentOrder).
const (
	OrderStrided    = "strided"    // each fragment has layers of all depths
	OrderSequential = "sequential" // as the tensors lie
)

// Values of Spec.Access.
const (
	AccessOpen    = "open"    // every peer may take part
	AccessPrivate = "private" // peers with a ticket or the admission secret may
)

// Values of Spec.Trust.
const (
	// TrustCrash withstands members that die or cannot be heard: a majority decides.
	TrustCrash = "crash"
	// TrustByzantine withstands members that lie, too, from 4 on: all but fewer than a third of
	// them decide.
	TrustByzantine = "byzantine"
)

// Codecs are the values that Spec.Codec may have: f32 loses nothing, the others lose something and
// send fewer bytes (docs/spec/reduction.md).
func Codecs() []string { return codec.Names() }

// Versions that this release speaks: those of wire.Version and kernel.Version, as a spec spells
// them.
const (
	ProtocolVersion = wire.VersionText
	KernelVersion   = "1"
)

// kernelOf is the version of the arithmetic of a run with this outer optimizer: of one that a
// program has registered, its version, too.
func kernelOf(outer string) string {
	if c, ok := outeropt.Registered(outer); ok {
		return fmt.Sprintf("%s+%s/%d", KernelVersion, c.Name, c.Version)
	}
	return KernelVersion
}

// MaxSteps bounds the inner steps of a round.
const MaxSteps = 1 << 30

// Defaults of outer_lr.
const (
	defaultLR     = "0.7"
	defaultAdamLR = "0.01"
)

// defaultWeightRatio is the default of max_weight_ratio where members may lie.
const defaultWeightRatio = "8"

// AuditAll is the value of audit_samples that has everything checked.
const AuditAll = "all"

const (
	// the default of audit_samples where members may lie
	defaultSamples = "24"
	maxSamples     = 1 << 20
)

// MinFrame is the least number of elements of a frame (Spec.Frame).
const MinFrame = 1 << 10

// The default frame has 64 Ki elements (256 KiB in f32), and fewer in small models, so that there
// are some frames for every peer.
const (
	defaultMaxFrame = 1 << 16
	framesWanted    = 64
	maxFrame        = 1 << 18 // the most that may be given
)
