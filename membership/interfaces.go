package membership

import (
	"context"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Planner gives every part of a plan's fragment an owner that is not gone, and chooses the schedule
// (slot.Plan.Ring). It is a pure function, and it is given from outside because agreement does not
// know about reduction. The pieces cover the fragment in order. If the plan has pieces already,
// those of living owners stay as they are, and so does the ring. links is what the peers announce
// of the connections between them.
type Planner func(plan slot.Plan, links slot.Links) (pieces []slot.Piece, ring []uint16)

// Store is the disk under the ledger. Save appends entries in order and returns once they are
// durable; on an error nothing may be sent that depends on them, and the driver stops.
type Store interface {
	wire.Records // on disk by now
	Load() (wire.Saved, error)
	Save(entries []wire.Entry) error
	Close() error
}

// Transport carries encoded, signed messages. Its methods do not block. A message that cannot be
// delivered is lost, and the ledger repeats it. The transport hands incoming messages to
// Driver.Deliver.
type Transport interface {
	Send(to slot.PeerID, message []byte)
	Publish(message []byte)
	// Connected returns the peers with a connection now. The value is true if that leads through a
	// relay.
	Connected() map[slot.PeerID]bool
}

// Worker does what the machine asks for. Do returns at once. The worker calls report with results
// from any goroutine, also after later calls of Do. New work of one kind replaces unfinished work
// of that kind. ctx ends when the driver closes.
type Worker interface {
	Do(ctx context.Context, work Work, report func(Report))
}
