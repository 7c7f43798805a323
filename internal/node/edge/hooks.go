package edge

import (
	"context"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/gossip"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/node/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/statesync"
)

// Hooks let the tests of whole nodes (internal/nodetest) reach what the public API does not show:
// faults of a disk and of streams, another timing, a death without a farewell, and the ledger of a
// running node. The bench of a step (internal/lab/bench) counts through them, and hostile
// peers (internal/lab/hostile) lie through them. The zero value changes nothing.
//
// They travel in the context of p2pdiloco.Join:
//
//	node, err := p2pdiloco.Join(edge.WithHooks(ctx, &edge.Hooks{Disk: failing}), cfg)
//
// So they need no field in the public Config, no global variable, and concern one node alone. A
// program outside this module cannot name them.
type Hooks struct {
	// Disk takes the place of the operating system's under the data directory.
	Disk disk.FS
	// Streams may replace each stream of the all-reduce and of the state transfer that the node has
	// opened or accepted, as a hostile program would.
	Streams func(protocol string, opened bool, s wire.Stream) wire.Stream
	// Timing changes the timers that come with Config.Preset.
	Timing func(*Preset)
	// Clock is by how much the node's time of day is ahead of the machine's.
	Clock time.Duration
	// Abrupt makes Close save nothing: the node ends as a killed process does.
	Abrupt bool
	// Offer is given each contribution after its hash was taken and before it is offered, with the
	// slot that the node contributes to. It may change the bytes, and the leaves if it recommits to
	// them.
	Offer func(slot uint64, c *allreduce.Contribution)
	// Claims returns the weight that a contribution to a slot claims, given the true one.
	Claims func(slot, weight uint64) uint64
	// Reduced is given the values of each frame that the node reduces as an owner, before they are
	// encoded. It may change them.
	Reduced func(slot uint64, frame int, values []float32)
	// Unsound founds a run from any model.
	Unsound bool
	// Passes says of each slot whether the node gives HAVE for an outcome without checking it. Nil:
	// it checks all.
	Passes func(slot uint64) bool
	// Ledger may wrap what the ledger works with, such as its Signer and Transport.
	Ledger func(*membership.DriverConfig)
	// Deliver may wrap what takes the ledger's messages from the network.
	Deliver func(next func(from slot.PeerID, b []byte)) func(from slot.PeerID, b []byte)
	// Opened is called once, before the ledger starts.
	Opened func(Inside)
}

// Inside is what tests may see of a running node.
type Inside struct {
	Ledger *membership.Driver
	Topic  *gossip.Topic
	Guard  *admission.Guard // of a private run
	// Quota bounds what peers that never were members may fetch.
	Quota statesync.Quota
	// Anchor gives access to the parameters that the node holds, as a fault of the memory has it.
	Anchor func(change func(x []float32))
}

type key struct{}

// WithHooks returns a context that carries hooks to Join.
func WithHooks(ctx context.Context, h *Hooks) context.Context {
	return context.WithValue(ctx, key{}, h)
}

// HooksFrom returns a copy of the hooks that ctx carries, with the operating system's Disk if they
// have none.
func HooksFrom(ctx context.Context) Hooks {
	var h Hooks
	if carried, ok := ctx.Value(key{}).(*Hooks); ok {
		h = *carried
	}
	if h.Disk == nil {
		h.Disk = disk.OS
	}
	return h
}

// WrapLedger has Ledger wrap what a driver works with.
func (h Hooks) WrapLedger(cfg membership.DriverConfig) membership.DriverConfig {
	if h.Ledger != nil {
		h.Ledger(&cfg)
	}
	return cfg
}

// WrapDeliver has Deliver wrap what takes the ledger's messages from the network.
func (h Hooks) WrapDeliver(next func(from slot.PeerID, b []byte)) func(from slot.PeerID, b []byte) {
	if h.Deliver != nil {
		return h.Deliver(next)
	}
	return next
}

// Now is the node's time of day.
func (h Hooks) Now() time.Time { return failpoint.Now().Add(h.Clock) }

// Preset is the preset of a name as Timing changes it; the zero value for an unknown name.
func (h Hooks) Preset(name string) Preset {
	p, _ := PresetNamed(name)
	if h.Timing != nil {
		h.Timing(&p)
	}
	return p
}
