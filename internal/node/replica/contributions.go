package replica

import (
	"maps"
	"slices"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Contribution is this peer's encoded pseudo-gradient of one fragment.
type Contribution struct {
	Base     uint64 // slot of the anchor that the inner steps started from
	Weight   uint64 // tokens or samples processed
	Fragment int
	Encoded  *allreduce.Contribution

	// what encoding lost of this pseudo-gradient (feedback.go); nil if the codec loses nothing
	residual []float32
}

// contributions are those of this peer that no record has settled yet, and what it owes from those
// before (feedback.go).
type contributions struct {
	self         slot.PeerID
	params       allreduce.Params
	codec        codec.Codec // of contributions
	maxStaleness uint64
	feedback     *feedback // nil if the codec loses nothing

	mu struct {
		sync.Mutex
		open map[slot.Root]Contribution // offered, by root
	}
}

func newContributions(self slot.PeerID, run Run) (*contributions, error) {
	used, err := codec.New(run.Params.Codec)
	if err != nil {
		return nil, err
	}
	c := &contributions{
		self: self, params: run.Params, codec: used, maxStaleness: run.MaxStaleness,
		feedback: newFeedback(run.Params.Fragments, used.Lossy()),
	}
	c.mu.open = make(map[slot.Root]Contribution)
	return c, nil
}

// encode puts a fragment's pseudo-gradient into the run's codec. gradient is not kept.
func (c *contributions) encode(base, weight uint64, fragment int, gradient []float32) (Contribution, error) {
	encoded, residual, err := c.feedback.encode(c.params, fragment, gradient)
	return Contribution{base, weight, fragment, encoded, residual}, err
}

// keep holds a contribution that is offered until settle lets it go.
func (c *contributions) keep(own Contribution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.open[own.Encoded.Root()] = own
}

// of finds this peer's contribution among offers. It is nil if there is none or it is not held any
// more.
func (c *contributions) of(offers []slot.Offer) *allreduce.Contribution {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range offers {
		if o.Peer == c.self {
			return c.mu.open[o.Root].Encoded
		}
	}
	return nil
}

// settle drops the contributions that a record lists, and those too stale for any later one. The
// ledger offers the others for the next slot. What encoding lost of a listed one is owed from now
// on.
func (c *contributions) settle(record slot.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.mu.open, func(root slot.Root, own Contribution) bool {
		// Another peer's contribution may consist of the same bytes.
		index := slices.IndexFunc(record.Contributions,
			func(o slot.Offer) bool { return o.Peer == c.self && o.Root == root })
		listed, stale := index >= 0, own.Base+c.maxStaleness < record.Slot
		if listed && own.residual != nil {
			c.feedback.owe(record, index, own.residual)
		}
		if listed || stale {
			c.feedback.giveBack(own.residual)
		}
		return listed || stale
	})
}

// forgive drops what is owed.
func (c *contributions) forgive() { c.feedback.forgive() }
