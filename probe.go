package p2pdiloco

import (
	"context"

	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// PeerProbe is what a probe of a peer showed, or why it showed nothing.
type PeerProbe struct {
	Peer  PeerID `json:"peer"`
	Error string `json:"error,omitempty"`
	p2p.Probe
}

// maxProbed bounds the members that Node.Probe asks: how fast a link is shows with a few.
const maxProbed = 16

// Probe measures the way to each other member, 16 at most: round trip, clock, and so many bytes sent there and back (p2p.MaxProbe at most). It
// asks one after the other, as they share this peer's link, and takes that link from slots meanwhile. ctx ends it early, with those asked
// so far.
func (n *Node) Probe(ctx context.Context, size int) []PeerProbe {
	all := []PeerProbe{}
	for _, m := range n.Status().Members {
		if len(all) == maxProbed || ctx.Err() != nil {
			break
		}
		if m.Self {
			continue
		}
		p := PeerProbe{Peer: m.Peer}
		var err error
		if p.Probe, err = n.net.Probe(ctx, m.Peer, size); err != nil {
			p.Error = err.Error()
		}
		all = append(all, p)
	}
	return all
}
