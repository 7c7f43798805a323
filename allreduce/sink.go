package allreduce

import (
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Reason says why a peer is lost. The enumeration only grows.
type Reason uint8

// Why a peer is lost.
const (
	Connection Reason = 1 // not reached, reset, closed, or no progress for the stall limit
	BadValue   Reason = 2 // NaN, Inf or 2^100 and more in its contribution
	BadBytes   Reason = 3 // bytes that do not hash to what it offered, or break the protocol
	// it says that this peer's own contribution is bad; nothing to report to others
	Refused Reason = 4
	// FalseNorm: the norm of a frame is not the one that it committed to.
	FalseNorm Reason = 5
	// TooManyRanges: this owner has lost so many contributors one by one that its piece would have
	// more ranges than an outcome has room for.
	TooManyRanges Reason = 6
)

// String is the reason in words.
func (r Reason) String() string {
	switch r {
	case Connection:
		return "connection"
	case BadValue:
		return "bad value"
	case BadBytes:
		return "bad bytes"
	case Refused:
		return "refused"
	case FalseNorm:
		return "false norm"
	case TooManyRanges:
		return "too many ranges"
	default:
		return fmt.Sprintf("reason %d", uint8(r))
	}
}

// Sink hears how a reduction goes. Its methods are called from several goroutines at once, must
// return soon, and must not call Close or Release. After Close or Release has returned none is
// called.
type Sink interface {
	// Within returns those of some contributors that one range may have together: without some that
	// are too many beside the others. It is asked before each range of an own piece, in a rotation.
	// The piece goes on without them, and nobody is told that they failed.
	Within(contributors slot.Bitmap) slot.Bitmap
	// SegmentDone: an own piece is reduced. Contributors are a bitmap over the plan's offers; the
	// bytes are in Result.
	SegmentDone(segment slot.Segment)
	// Lost: the peer failed, and the pieces that need it will not complete by this plan. Once a
	// peer. Where err is a *BadFrame or *BadTotal (errors.As) it holds what proves the peer's
	// fault.
	Lost(peer slot.PeerID, reason Reason, err error)
	// Progress: so many bytes went out and came in so far, headers included. Called with each
	// frame.
	Progress(sent, received uint64)
}

// deaf is the sink of a reduction that nobody listens to any more.
type deaf struct{}

func (deaf) Within(set slot.Bitmap) slot.Bitmap { return set }
func (deaf) SegmentDone(slot.Segment)           {}
func (deaf) Lost(slot.PeerID, Reason, error)    {}
func (deaf) Progress(sent, received uint64)     {}

// reasonOf sorts errors by the peer at fault.
func reasonOf(err error) Reason {
	switch {
	case errors.Is(err, ErrNotFinite):
		return BadValue
	case errors.Is(err, ErrFalseNorm):
		return FalseNorm
	case errors.Is(err, errRefused):
		return Refused
	case errors.Is(err, errBadBytes), errors.As(err, new(*BadFrame)):
		return BadBytes
	default:
		return Connection
	}
}
