package p2pdiloco

import (
	"context"
	"errors"
	"log/slog"

	"github.com/p2pdiloco/p2pdiloco/gossip"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Kinds of announcements.
const (
	kindLedger    = 1 // ledger messages
	kindAdmission = 2 // tokens used in a private run
)

// ledgerTransport carries ledger messages (membership.Transport): by direct stream, by gossip to all, and by gossip, too, where a
// pair cannot connect. Its receivers ignore what is not for them.
type ledgerTransport struct {
	net       *p2p.Network
	messenger *p2p.Messenger
	topic     *gossip.Topic
	log       *slog.Logger
	last      Root // hash of what was gossiped last for want of a stream; of the goroutine that reports drops
}

// openTransport opens it in a topic. cfg has what depends on the node; the rest is filled in.
func openTransport(ctx context.Context, net *p2p.Network, run Root, cfg gossip.Config, deliver func(from PeerID, b []byte)) (*ledgerTransport, error) {
	t := &ledgerTransport{net: net, log: cfg.Logger}
	others := cfg.Deliver
	cfg.Kinds = append(cfg.Kinds, kindLedger)
	cfg.Deliver = func(from slot.PeerID, kind uint8, body []byte) {
		if kind == kindLedger {
			deliver(from, body)
			return
		}
		others(from, kind, body)
	}
	cfg.Epoch = func(body []byte) uint64 { return uint64(membership.IncarnationOf(body)) }
	cfg.Echo = func(kind uint8, body []byte) {
		if kind == kindLedger {
			deliver(net.ID(), body)
		}
	}
	cfg.Check = func(from slot.PeerID, kind uint8, body []byte) gossip.Verdict {
		if kind != kindLedger || membership.MayAnnounce(body, run, from) {
			return gossip.Accept
		}
		return gossip.Reject
	}
	var err error
	if t.topic, err = gossip.Join(ctx, net.Host(), cfg); err != nil {
		return nil, err
	}
	t.messenger = net.NewMessenger(p2p.ProtocolLedger, slot.MaxMessage, deliver, t.undelivered)
	return t, nil
}

// Send implements membership.Transport.
func (t *ledgerTransport) Send(to PeerID, message []byte) { t.messenger.Send(to, message) }

// Publish implements membership.Transport.
func (t *ledgerTransport) Publish(message []byte) { t.publish(kindLedger, message) }

func (t *ledgerTransport) publish(kind uint8, body []byte) {
	if err := t.topic.Publish(context.Background(), kind, body); err != nil {
		t.log.Debug("announcement failed", "err", err)
	}
}

// Connected implements membership.Transport.
func (t *ledgerTransport) Connected() map[PeerID]bool { return t.net.Relayed() }

// undelivered gossips what could not be sent to a peer.
func (t *ledgerTransport) undelivered(to PeerID, message []byte, err error) {
	t.log.Debug("no direct way to a peer: gossiping instead", "peer", to, "err", err)
	if errors.Is(err, p2p.ErrQueueFull) || len(message) > gossip.MaxBody || !membership.MayFallBack(message) {
		return
	}
	if h := slot.Hash(message); h != t.last { // one message for many peers is gossiped once
		t.last = h
		t.Publish(message)
	}
}

// close leaves the topic. The messenger ends with its network.
func (t *ledgerTransport) close() { _ = t.topic.Close() }

// bulk opens and takes in streams of one protocol: the transport of the all-reduce and of state synchronisation.
type bulk struct {
	net      *p2p.Network
	protocol string
	streams  func(protocol string, opened bool, s wire.Stream) wire.Stream // Config.streams
}

// Open implements allreduce.Transport and statesync's opener.
func (b bulk) Open(ctx context.Context, peer PeerID) (wire.Stream, error) {
	s, err := b.net.OpenBulk(ctx, peer, b.protocol)
	if err == nil && b.streams != nil {
		s = b.streams(b.protocol, true, s)
	}
	return s, err
}

// handle has serve called with each stream that a peer opens to this one.
func (b bulk) handle(serve func(from PeerID, s wire.Stream)) {
	b.net.Handle(b.protocol, func(from PeerID, s wire.Stream) {
		if b.streams != nil {
			s = b.streams(b.protocol, false, s)
		}
		serve(from, s)
	})
}
