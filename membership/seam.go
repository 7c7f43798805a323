package membership

import (
	"context"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Rules are the run spec's values that the ledger needs: equal on all peers.
type Rules struct {
	Run          slot.Root
	LastSlot     uint64    // the run ends once this slot is applied and certified; 0 means it has no end
	StartPeers   int       // slot 1 is held until so many are members
	MinPeers     int       // contributors with which a slot may close, at least 1
	MaxStaleness uint64    // an offer's base may lie so many slots behind Slot-1
	Ahead        uint64    // how many slots before theirs is decided members begin to train for one: 1 where slots overlap with inner steps
	MaxWeight    uint64    // cap of an offer's weight; 0 means none
	InitRoot     slot.Root // the state that the founding record must name; zero: its founder's choice
	PartSteps    uint64    // inner steps that a part of the data is enough for; 0: each contribution takes a whole part
	Pace         PaceRules // what the members' inner steps follow from, where the run has them follow from measured speeds
	Rings        bool      // plans may have a ring (slot.Plan.Ring)
	Private      bool      // the members share a secret, which an access record can change
	Fragments    []uint64  // elements of each fragment, at least one: segments of a slot cover [0, elements) of its fragment
}

// fragment is the one that a slot updates.
func (r Rules) fragment(slotNumber uint64) uint32 {
	return slot.FragmentOf(slotNumber, uint64(len(r.Fragments)))
}

// elements is the number of elements of the fragment that a slot updates.
func (r Rules) elements(slotNumber uint64) uint64 { return r.Fragments[r.fragment(slotNumber)] }

// Planner gives every part of a plan's fragment an owner that is not gone, and chooses the schedule (slot.Plan.Ring): pure, and given
// from outside because reduction and agreement do not know each other. The pieces cover the fragment in order. Where the plan has pieces
// already, those of living owners stay as they are, and so does the ring. links is what the peers say of the ways between them.
type Planner func(plan slot.Plan, links slot.Links) (pieces []slot.Piece, ring []uint16)

// Store is the disk under the ledger. Save appends entries in order and returns once they are durable; on an error nothing
// may be sent that depends on them, and the driver stops.
type Store interface {
	Load() (Saved, error)
	Save(entries []Entry) error
	Close() error
}

// Signer signs with the peer's libp2p key.
type Signer interface {
	ID() slot.PeerID
	Sign(data []byte) ([]byte, error)
}

// Transport carries encoded, signed messages. Neither call blocks: what cannot be delivered is lost, and the ledger repeats itself.
// Incoming messages are handed to Driver.Deliver.
type Transport interface {
	Send(to slot.PeerID, message []byte)
	Publish(message []byte)
	Connected() map[slot.PeerID]bool // peers with a connection now: true where it leads through a relay
}

// Worker does what the machine asks for. Do returns at once; results go to report from any goroutine, also after later calls
// of Do. Work of one kind replaces unfinished work of that kind. ctx ends when the driver closes.
type Worker interface {
	Do(ctx context.Context, work Work, report func(Report))
}
