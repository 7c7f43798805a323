package gossip

import (
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// rejections reports to the topic which neighbours passed on messages that are malformed or not
// signed by their author. No honest peer does that.
type rejections struct {
	silent
	topic *Topic
}

// RejectMessage implements pubsub.RawTracer.
func (r *rejections) RejectMessage(m *pubsub.Message, reason string) {
	switch reason {
	case pubsub.RejectValidationFailed, pubsub.RejectInvalidSignature, pubsub.RejectMissingSignature:
		r.topic.offended(m.ReceivedFrom)
	}
}

func (t *Topic) offended(by peer.ID) {
	if t.bad.note(by, time.Now()) {
		t.cfg.Logger.Warn("a neighbour announces junk: nothing is heard of it for a while", "peer", by, "for", muteFor)
	}
}

// inspect removes the messages from what a muted neighbour sends. Its topic subscriptions stay,
// because the neighbour may be heard again later.
func (t *Topic) inspect(from peer.ID, rpc *pubsub.RPC) error {
	if len(rpc.Publish) > 0 && t.bad.muted(from, time.Now()) {
		rpc.Publish = nil
	}
	return nil
}

// silent is a pubsub.RawTracer that is not interested.
type silent struct{}

// OnNewOutboundStream implements pubsub.RawTracer, like all below.
func (silent) OnNewOutboundStream(peer.ID, protocol.ID) {}
func (silent) OnClosedOutboundStream(peer.ID)           {}
func (silent) Join(string)                              {}
func (silent) Leave(string)                             {}
func (silent) Graft(peer.ID, string)                    {}
func (silent) Prune(peer.ID, string)                    {}
func (silent) ValidateMessage(*pubsub.Message)          {}
func (silent) DeliverMessage(*pubsub.Message)           {}
func (silent) RejectMessage(*pubsub.Message, string)    {}
func (silent) DuplicateMessage(*pubsub.Message)         {}
func (silent) ThrottlePeer(peer.ID)                     {}
func (silent) RecvRPC(*pubsub.RPC)                      {}
func (silent) SendRPC(*pubsub.RPC, peer.ID)             {}
func (silent) DropRPC(*pubsub.RPC, peer.ID)             {}
func (silent) UndeliverableMessage(*pubsub.Message)     {}
