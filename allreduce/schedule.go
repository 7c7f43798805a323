package allreduce

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// schedule is how a group reduces: a rotation or a ring. A reduction has one schedule for good,
// because all plans of a group have the same ring (slot.Plan.Group). The reduction's mu is held
// where nothing else is said.
type schedule interface {
	// start begins with the first plan.
	start()
	// withdraw stops what the next plan has no more, and waits until it has ended. mu is not held.
	withdraw(next slot.Plan)
	// turn goes on by a revision.
	turn()
	// attach returns what serves a stream. It is nil without an error if nothing here is for the
	// hello, as for a hello of the other schedule.
	attach(from slot.PeerID, h hello) (guest, error)

	// status is how far a piece of the plan is; one that has just been given to another owner has
	// not begun.
	status(p slot.Piece) pieceStatus
	// closed lists the own ranges that are reduced.
	closed() []slot.Segment
}

// guest is what serves a stream that a peer has opened, and that came at a time.
type guest interface {
	serve(s wire.Stream, came time.Time)
}

// pieceStatus is how far a piece is.
type pieceStatus uint8

const (
	pieceOpen   pieceStatus = iota
	pieceDone               // its bytes are in the result
	pieceFailed             // its owner was lost: it comes by a revision, or is fetched elsewhere
)

// Coming is how much has come of a piece that another owner reduces.
type Coming struct {
	slot.Piece
	Bytes uint64 // of a frame that is on its way as it is sent: it may be compressed
	Size  uint64
}
