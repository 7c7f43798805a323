package gossip

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Topic is one run's channel of announcements. Its methods may be called from any goroutine.
type Topic struct {
	cfg     Config
	self    peer.ID
	host    host.Host
	proto   protocol.ID
	topic   *pubsub.Topic
	sub     *pubsub.Subscription
	origins *origins
	bad     *offenders
	counter atomic.Uint64

	ctx    context.Context // gossipsub's, ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	once   sync.Once
}

// Join subscribes to a topic on a host, which stays open. ctx bounds only Join itself.
func Join(ctx context.Context, h host.Host, cfg Config) (*Topic, error) {
	cfg = cfg.withDefaults()
	if err := errors.Join(cfg.Validate(), ctx.Err()); err != nil {
		return nil, err
	}
	t := &Topic{
		cfg: cfg, self: h.ID(), host: h, proto: cmp.Or(protocol.ID(cfg.Protocol), protocolOf(cfg.Topic)),
		origins: newOrigins(usual, cfg.Epoch), bad: newOffenders(),
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	if err := t.open(); err != nil {
		t.cancel()
		return nil, fmt.Errorf("joining gossip topic %s: %w", cfg.Topic, err)
	}
	t.wg.Go(t.receive)
	return t, nil
}

func (t *Topic) open() error {
	ps, err := pubsub.NewGossipSub(t.ctx, connections{t.host}, t.options()...)
	if err != nil {
		return err
	}
	// Inline: the check is short, and the other way a goroutine is started for every message.
	if err := ps.RegisterTopicValidator(t.cfg.Topic, t.validate, pubsub.WithValidatorInline(true)); err != nil {
		return err
	}
	if t.topic, err = ps.Join(t.cfg.Topic); err != nil {
		return err
	}
	if t.sub, err = t.topic.Subscribe(pubsub.WithBufferSize(queue)); err != nil {
		return err
	}
	streams, err := newStreams(t.host, t.proto, t.topic)
	if err != nil {
		return err
	}
	t.wg.Go(func() { streams.run(t.ctx.Done(), t.cfg.Heartbeat) })
	return nil
}

// protocolOf gives every topic a gossipsub protocol of its own, so that several runs, and a
// program's own gossipsub, can share a host: a host has one handler for each protocol.
func protocolOf(topic string) protocol.ID {
	h := sha256.Sum256([]byte(topic))
	return protocol.ID("/p2pdiloco/gossip-" + hex.EncodeToString(h[:8]) + "/1.0.0")
}

func (t *Topic) options() []pubsub.Option {
	log := slog.New(quiet{t.cfg.Logger.Handler()})
	params := pubsub.DefaultGossipSubParams()
	// One's own announcements go to all neighbours, and members are neighbours of each other: what
	// others pass on only mends. A mesh of 6 brings each of 8 peers what it has five times, and
	// three rounds of names to 6 others weigh more than an announcement.
	params.D, params.Dlo, params.Dhi, params.Dscore, params.Dout = 3, 2, 4, 2, 0
	params.Dlazy, params.HistoryGossip = 3, 2
	params.HeartbeatInterval = t.cfg.Heartbeat
	params.HeartbeatInitialDelay = min(params.HeartbeatInitialDelay, t.cfg.Heartbeat)
	return []pubsub.Option{
		pubsub.WithGossipSubProtocols([]protocol.ID{t.proto}, features),
		pubsub.WithGossipSubParams(params),
		pubsub.WithMessageSignaturePolicy(pubsub.StrictSign),
		pubsub.WithMessageIdFn(messageID),
		// swarms are small: one's own announcements go to all neighbours at once
		pubsub.WithFloodPublish(true),
		pubsub.WithPeerOutboundQueueSize(queue),
		pubsub.WithValidateQueueSize(queue),
		pubsub.WithSubscriptionFilter(pubsub.NewAllowlistSubscriptionFilter(t.cfg.Topic)),
		pubsub.WithRawTracer(newTracer(t.cfg, t.offended)),
		pubsub.WithAppSpecificRpcInspector(t.inspect),
		pubsub.WithLogger(log),
		pubsub.WithRPCLogger(log),
	}
}

// features: our protocol is gossipsub 1.2 under another name.
func features(f pubsub.GossipSubFeature, _ protocol.ID) bool {
	return f == pubsub.GossipSubFeatureMesh || f == pubsub.GossipSubFeatureIdontwant
}

// messageID gives two messages the same ID if author and content are equal.
func messageID(m *pb.Message) string {
	h := sha256.New()
	h.Write(m.GetFrom())
	h.Write(m.GetData())
	return string(h.Sum(nil))
}

// Publish announces body to the run. It does not wait for anybody to receive it, and it is no error
// if nobody is there.
func (t *Topic) Publish(ctx context.Context, kind uint8, body []byte) error {
	if t.ctx.Err() != nil {
		return errClosed()
	}
	if !slices.Contains(t.cfg.Kinds, kind) {
		return fmt.Errorf("gossip: kind %d is none of %v", kind, t.cfg.Kinds)
	}
	if len(body) > MaxBody {
		return fmt.Errorf("gossip: body of %d bytes: at most %d can be announced", len(body), MaxBody)
	}
	a := announcement{kind: kind, boot: t.cfg.Boot, counter: t.counter.Add(1), body: body}
	err := t.topic.Publish(ctx, a.append(make([]byte, 0, overhead+len(body))))
	if t.ctx.Err() != nil {
		return errClosed()
	}
	return err
}

func errClosed() error { return fmt.Errorf("gossip topic: %w", net.ErrClosed) }

// Keep sets the authors whose windows against repetition are never dropped to make room for
// others': the members of the run. Names cost nothing, so otherwise a peer could flood the topic
// under many names until all windows are forgotten, and then replay old announcements of members.
func (t *Topic) Keep(authors []slot.PeerID) { t.origins.protect(authors) }

// Peers returns the neighbours that are in the topic, sorted.
func (t *Topic) Peers() []slot.PeerID {
	var out []slot.PeerID
	for _, p := range t.topic.ListPeers() {
		out = append(out, slot.PeerID(p))
	}
	slices.Sort(out)
	return out
}

// validate judges a message before it is delivered or passed on.
func (t *Topic) validate(_ context.Context, via peer.ID, m *pubsub.Message) pubsub.ValidationResult {
	from := m.GetFrom()
	if from == t.self {
		return pubsub.ValidationAccept // gossipsub drops what others send under our name
	}
	a, err := parse(m.Data)
	switch {
	case err != nil:
		t.cfg.Logger.Debug("announcement rejected", "from", from, "err", err)
		return pubsub.ValidationReject
	case !slices.Contains(t.cfg.Kinds, a.kind):
		return pubsub.ValidationIgnore // a later version may know this kind
	case !t.origins.admit(slot.PeerID(via), slot.PeerID(from), a, len(m.Data), time.Now()):
		if via == from && !t.origins.isProtected(slot.PeerID(from)) {
			// the author repeats itself or sends too much; the neighbour may only have passed that
			// on
			t.offended(via)
		}
		return pubsub.ValidationIgnore
	case t.cfg.Check == nil || t.cfg.Check(slot.PeerID(from), a.kind, a.body):
		return pubsub.ValidationAccept
	}
	return pubsub.ValidationReject
}

// receive delivers announcements of others until the topic is closed.
func (t *Topic) receive() {
	for {
		m, err := t.sub.Next(t.ctx)
		if err != nil {
			return
		}
		if m.GetFrom() == t.self {
			continue
		}
		a, err := parse(m.Data)
		if err != nil {
			continue // validate accepts only messages that parse
		}
		// gossipsub still passes m.Data on
		t.cfg.Deliver(slot.PeerID(m.GetFrom()), a.kind, slices.Clone(a.body))
	}
}

// Close leaves the topic and waits until Deliver runs no more. It must not be called from Deliver
// or Check.
func (t *Topic) Close() error {
	t.once.Do(func() {
		t.host.RemoveStreamHandler(t.proto)
		t.cancel()
		t.resetStreams()
		t.wg.Wait()
	})
	return nil
}

// resetStreams ends gossipsub's streams, which it leaves open when its context ends because hosts
// are usually closed then.
func (t *Topic) resetStreams() {
	for _, c := range t.host.Network().Conns() {
		for _, s := range c.GetStreams() {
			if s.Protocol() == t.proto {
				_ = s.Reset()
			}
		}
	}
}
