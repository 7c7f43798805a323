// Package edge joins the parts of a node to its network: the ledger's messages (Ledger), and the
// streams of the all-reduce and of the state transfer (Bulk).
//
// A node makes a Ledger, hands it to the ledger's driver as its transport, and then Opens it with
// what receives messages: nothing is sent or received before. It Closes it before the network.
//
// Two more things come to a node from outside its parts: the timing preset of its run (Preset), and
// what tests change in it (Hooks).
package edge

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/p2pdiloco/p2pdiloco/gossip"
	"github.com/p2pdiloco/p2pdiloco/internal/node/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
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
	members   *lru.Cache[slot.PeerID, struct{}] // which this node has seen so far
	fallback  fallback
}

// maxMembers bounds the members that are remembered: above the number that there can be, so that
// those of now are always among them.
const maxMembers = 8192

// NewLedger makes the transport. It does nothing until Open.
func NewLedger(cfg LedgerConfig) *Ledger {
	members, _ := lru.New[slot.PeerID, struct{}](maxMembers) // fails for a size of 0
	return &Ledger{cfg: cfg, members: members}
}

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
	cfg.Check = func(from slot.PeerID, kind uint8, body []byte) bool {
		return kind != kindLedger || wire.MayAnnounce(body, l.cfg.Run, from)
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
// They are looked for while they are missing, but for those that may not be members any more.
func (l *Ledger) KeepClose(members, barred []slot.PeerID) {
	l.AddMembers(members...)
	l.cfg.Network.Protect(members)
	l.cfg.Network.Bar(barred)
	l.topic.Keep(members)
}

// AddMembers notes peers that were members for a while.
func (l *Ledger) AddMembers(peers ...slot.PeerID) {
	for _, p := range peers {
		l.members.Add(p, struct{}{})
	}
}

// WasMember says whether a peer has been a member since this node started: such a peer is no
// newcomer if it comes back.
func (l *Ledger) WasMember(p slot.PeerID) bool { return l.members.Contains(p) }

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

// Close ends it. The network may be lent, and serve another node afterwards.
func (l *Ledger) Close() {
	if l.topic != nil {
		_ = l.topic.Close()
	}
	if l.messenger != nil {
		l.messenger.Close()
	}
}

// Bulk opens and accepts streams of one protocol: the transport of the all-reduce, and that of
// state synchronisation.
type Bulk struct {
	Network  *p2p.Network
	Protocol string
	// Replace may replace each stream that was opened or accepted (Hooks.Streams); nil:
	// streams stay as they are.
	Replace func(protocol string, opened bool, s canonical.Stream) canonical.Stream
}

// Open implements allreduce.Transport and statesync's opener.
func (b Bulk) Open(ctx context.Context, peer slot.PeerID) (canonical.Stream, error) {
	s, err := b.Network.OpenBulk(ctx, peer, b.Protocol)
	if err == nil && b.Replace != nil {
		s = b.Replace(b.Protocol, true, s)
	}
	return s, err
}

// Handle has serve called with each stream that a peer opens to this one.
func (b Bulk) Handle(serve func(from slot.PeerID, s canonical.Stream)) {
	b.Network.Handle(b.Protocol, func(from slot.PeerID, s canonical.Stream) {
		if b.Replace != nil {
			s = b.Replace(b.Protocol, false, s)
		}
		serve(from, s)
	})
}

// fallbackPause bounds how often one message is gossiped. When a peer cannot be reached, all
// messages that wait for it are given up at the same moment, repeats of one message included.
const fallbackPause = 100 * time.Millisecond

// fallback decides which of the messages that could not be sent directly are gossiped. One message
// for many peers is gossiped once. A message that is sent to the same peer again is a repeat of
// what was not answered, and is gossiped again: signatures are deterministic, so the repeat has the
// same bytes, and the first one may have come at a time when it was of no use.
type fallback struct {
	mu struct {
		sync.Mutex
		last     slot.Root // the hash of the message that was gossiped last
		at       time.Time // when
		gossiped map[slot.PeerID]struct{}
	}
}

// due says whether a message for a peer must be gossiped now, and takes note of it.
func (f *fallback) due(to slot.PeerID, message []byte, now time.Time) bool {
	h := slot.Hash(message)
	f.mu.Lock()
	defer f.mu.Unlock()
	_, repeated := f.mu.gossiped[to]
	if h == f.mu.last && (!repeated || now.Sub(f.mu.at) < fallbackPause) {
		f.mu.gossiped[to] = struct{}{}
		return false
	}
	f.mu.last, f.mu.at = h, now
	f.mu.gossiped = map[slot.PeerID]struct{}{to: {}}
	return true
}
