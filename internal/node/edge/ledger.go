package edge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/p2pdiloco/p2pdiloco/gossip"
	"github.com/p2pdiloco/p2pdiloco/internal/node/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Kinds of announcements.
const (
	kindLedger    = 1 // ledger messages
	kindAdmission = 2 // tokens used in a private run
)

// privateGossip is the gossipsub protocol of all private runs: strangers must not see which peers
// are in the same one.
const privateGossip = "/p2pdiloco/gossip/1.0.0"

// LedgerConfig says what a Ledger works with.
type LedgerConfig struct {
	Network   *p2p.Network
	Run       slot.Root
	Boot      uint64           // see gossip.Config
	Heartbeat time.Duration    // of gossip; its default if 0
	Guard     *admission.Guard // of a private run; nil for an open one
	Logger    *slog.Logger
}

// Ledger carries the ledger's messages (membership.Transport): by direct stream, by gossip to all,
// and by gossip, too, where a pair of peers cannot connect. Its receivers ignore what is not for
// them.
type Ledger struct {
	cfg       LedgerConfig
	messenger *p2p.Messenger
	topic     *gossip.Topic
	members   peerSet  // which this node has seen so far
	fallback  fallback // of the goroutine that reports drops
}

// NewLedger makes the transport. It does nothing until Open.
func NewLedger(cfg LedgerConfig) *Ledger { return &Ledger{cfg: cfg} }

// Open begins to send and to receive. deliver gets each message that arrives, also those that come
// back by gossip under this peer's own name: they may be of its earlier days. It must not block.
func (l *Ledger) Open(ctx context.Context, deliver func(from slot.PeerID, b []byte)) (err error) {
	if l.topic, err = gossip.Join(ctx, l.cfg.Network.Host(), l.gossipConfig(deliver)); err != nil {
		return err
	}
	l.messenger = l.cfg.Network.NewMessenger(p2p.ProtocolLedger, slot.MaxMessage, deliver, l.undelivered)
	return nil
}

// gossipConfig is of the topic that this run's peers gossip in. The gate keeps strangers out of
// that of a private run: its name stays when the secret is changed.
func (l *Ledger) gossipConfig(deliver func(from slot.PeerID, b []byte)) gossip.Config {
	cfg := gossip.Config{
		Topic: "/p2pdiloco/run/" + l.cfg.Run.String(), Boot: l.cfg.Boot, Kinds: []uint8{kindLedger},
		Heartbeat: l.cfg.Heartbeat, Logger: l.cfg.Logger,
	}
	if l.cfg.Guard != nil {
		cfg.Protocol, cfg.Kinds = privateGossip, append(cfg.Kinds, kindAdmission)
	}
	cfg.Deliver = func(from slot.PeerID, kind uint8, body []byte) {
		switch kind {
		case kindLedger:
			deliver(from, body)
		case kindAdmission:
			l.cfg.Guard.Learn(body)
		}
	}
	cfg.Epoch = func(body []byte) uint64 { return uint64(wire.IncarnationOf(body)) }
	cfg.Echo = func(kind uint8, body []byte) {
		if kind == kindLedger {
			deliver(l.cfg.Network.ID(), body)
		}
	}
	cfg.Check = func(from slot.PeerID, kind uint8, body []byte) gossip.Verdict {
		if kind != kindLedger || wire.MayAnnounce(body, l.cfg.Run, from) {
			return gossip.Accept
		}
		return gossip.Reject
	}
	return cfg
}

// Send implements membership.Transport.
func (l *Ledger) Send(to slot.PeerID, message []byte) { l.messenger.Send(to, message) }

// Publish implements membership.Transport.
func (l *Ledger) Publish(message []byte) { l.publish(kindLedger, message) }

// PublishTokens announces which tokens of a private run have been used.
func (l *Ledger) PublishTokens(body []byte) { l.publish(kindAdmission, body) }

func (l *Ledger) publish(kind uint8, body []byte) {
	if err := l.topic.Publish(context.Background(), kind, body); err != nil {
		l.cfg.Logger.Debug("announcement failed", "err", err)
	}
}

// Connected implements membership.Transport.
func (l *Ledger) Connected() map[slot.PeerID]bool { return l.cfg.Network.Relayed() }

// Topic is the topic that the run's peers gossip in.
func (l *Ledger) Topic() *gossip.Topic { return l.topic }

// KeepClose spares the members where connections, or what is kept of authors, must be cut down.
func (l *Ledger) KeepClose(members []slot.PeerID) {
	l.members.add(members)
	l.cfg.Network.Protect(members)
	l.topic.Keep(members)
}

// AddMembers notes peers that were members for a while.
func (l *Ledger) AddMembers(peers ...slot.PeerID) { l.members.add(peers) }

// WasMember says whether a peer has been a member since this node started: such a peer is no
// newcomer if it comes back.
func (l *Ledger) WasMember(p slot.PeerID) bool { return l.members.has(p) }

// undelivered gossips what could not be sent to a peer.
func (l *Ledger) undelivered(to slot.PeerID, message []byte, err error) {
	l.cfg.Logger.Debug("no direct way to a peer: gossiping instead", "peer", to, "err", err)
	if errors.Is(err, p2p.ErrQueueFull) || len(message) > gossip.MaxBody || !wire.MayFallBack(message) {
		return
	}
	if l.fallback.due(to, message, time.Now()) {
		l.Publish(message)
	}
}

// Close leaves the topic. The messenger ends with its network.
func (l *Ledger) Close() {
	if l.topic != nil {
		_ = l.topic.Close()
	}
}
