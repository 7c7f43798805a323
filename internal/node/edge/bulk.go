package edge

import (
	"context"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Bulk opens and accepts streams of one protocol: the transport of the all-reduce, and that of
// state synchronisation.
type Bulk struct {
	Network  *p2p.Network
	Protocol string
	// Replace may replace each stream that was opened or accepted (testhooks.Hooks.Streams); nil:
	// streams stay as they are.
	Replace func(protocol string, opened bool, s wire.Stream) wire.Stream
}

// Open implements allreduce.Transport and statesync's opener.
func (b Bulk) Open(ctx context.Context, peer slot.PeerID) (wire.Stream, error) {
	s, err := b.Network.OpenBulk(ctx, peer, b.Protocol)
	if err == nil && b.Replace != nil {
		s = b.Replace(b.Protocol, true, s)
	}
	return s, err
}

// Handle has serve called with each stream that a peer opens to this one.
func (b Bulk) Handle(serve func(from slot.PeerID, s wire.Stream)) {
	b.Network.Handle(b.Protocol, func(from slot.PeerID, s wire.Stream) {
		if b.Replace != nil {
			s = b.Replace(b.Protocol, false, s)
		}
		serve(from, s)
	})
}
