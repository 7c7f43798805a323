package gossip

import (
	"context"
	"slices"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// maxStreamPause bounds the pause between two tries to open a stream to one neighbour, in
// heartbeats. Not every neighbour is in the topic: the bootstrap node and peers of other runs are
// not, and cannot be told from those that are.
const maxStreamPause = 64

// streams makes gossipsub open a stream to every neighbour that takes part. By itself gossipsub
// tries once, when the neighbour is connected or libp2p's identify reports that it speaks the
// protocol. But identify reports that only once, and takes no more than ten such messages, and then
// one in 5 s, from all of an IPv4 /24: of many peers that start in one network, or behind one
// address, most would not be heard. And a stream that could not be opened, because the link was
// down for that moment, is not tried again while the connection lasts.
type streams struct {
	host  host.Host
	proto protocol.ID
	topic *pubsub.Topic
	tell  event.Emitter
	tries map[peer.ID]try // neighbours of which no stream is known
}

// connections is a host that opens streams over connections that are there. gossipsub opens another
// stream when one has ended, and knows of no other until that has been tried. With a peer that has
// left, the host would dial meanwhile, which takes 5 s where nobody answers over QUIC; if the peer
// was started again at once, it would not be heard for so long.
type connections struct{ host.Host }

// NewStream does not dial.
func (c connections) NewStream(ctx context.Context, p peer.ID, protos ...protocol.ID) (network.Stream, error) {
	return c.Host.NewStream(network.WithNoDial(ctx, "gossip"), p, protos...)
}

// try says when a neighbour is tried next, in heartbeats from the start, and how long the pause
// after that is.
type try struct{ next, pause int }

func newStreams(h host.Host, proto protocol.ID, topic *pubsub.Topic) (*streams, error) {
	tell, err := h.EventBus().Emitter(&event.EvtPeerProtocolsUpdated{})
	if err != nil {
		return nil, err
	}
	return &streams{host: h, proto: proto, topic: topic, tell: tell, tries: make(map[peer.ID]try)}, nil
}

// run looks after the streams once a heartbeat until done is closed.
func (s *streams) run(done <-chan struct{}, heartbeat time.Duration) {
	defer s.tell.Close()
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for beat := 0; ; beat++ {
		select {
		case <-done:
			return
		case <-tick.C:
			s.look(beat)
		}
	}
}

// look reports to gossipsub the neighbours that it may have missed. It ignores those to which it
// has a stream.
func (s *streams) look(beat int) {
	reached := s.topic.ListPeers()
	missing := make(map[peer.ID]try)
	for _, p := range s.host.Network().Peers() {
		if slices.Contains(reached, p) || s.host.Network().Connectedness(p) != network.Connected {
			continue
		}
		t, known := s.tries[p]
		if !known {
			t = try{next: beat + 1, pause: 1} // gossipsub's own try comes first
		}
		if beat >= t.next {
			t = try{next: beat + t.pause, pause: min(2*t.pause, maxStreamPause)}
			// fails only once closed
			_ = s.tell.Emit(event.EvtPeerProtocolsUpdated{Peer: p, Added: []protocol.ID{s.proto}})
		}
		missing[p] = t
	}
	s.tries = missing
}
