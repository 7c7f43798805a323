package nat

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
)

// meterShare is how many bytes are let through at a time at most, meterLeast at least, so that
// streams take turns.
const meterShare, meterLeast = 16 << 10, 1 << 10

// meteredHost is the host as libp2p's relay service sees it: every stream that it relays between is
// metered.
//
//	source -> hop stream: Read counts what the source sends -> relay -> stop stream -> destination
//
// and the same way back.
type meteredHost struct {
	host.Host
	r *Relay
}

// SetStreamHandler implements host.Host.
func (h *meteredHost) SetStreamHandler(id protocol.ID, f network.StreamHandler) {
	h.Host.SetStreamHandler(id, func(s network.Stream) { f(h.r.meter(s, false)) })
}

// NewStream implements host.Host.
func (h *meteredHost) NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error) {
	s, err := h.Host.NewStream(ctx, p, ids...)
	if err != nil || !slices.Contains(ids, proto.ProtoIDv2Stop) {
		return s, err
	}
	return h.r.meter(s, true), nil
}

// meteredStream is one side of a relayed connection. What its peer sends waits for its turn; after
// relayDuration the stream ends.
type meteredStream struct {
	network.Stream
	r     *Relay
	until time.Time
	ctx   context.Context // ends with the stream
	end   func()          // ends ctx
	// carries says that what comes is relayed. On a hop stream it is so once the relay has
	// answered: what came before asks for that, and strangers may ask as often as they like.
	carries atomic.Bool
}

// meter takes a stream of the relay's, which ends with the task group. One that carries from the
// beginning is a stop stream.
func (r *Relay) meter(s network.Stream, carries bool) *meteredStream {
	m := &meteredStream{Stream: s, r: r, until: time.Now().Add(relayDuration)}
	m.carries.Store(carries)
	ctx, cancel := context.WithCancel(r.env.Tasks.Context())
	stop := context.AfterFunc(r.env.Tasks.Context(), func() { _ = s.Reset() })
	side := &r.opened
	if carries {
		side = &r.reached
	}
	ended := side.add(s.Conn().RemotePeer())
	m.ctx, m.end = ctx, func() { stop(); cancel(); ended() }
	return m
}

func (m *meteredStream) Read(b []byte) (int, error) {
	k, err := m.Stream.Read(b[:min(len(b), m.r.share)])
	if k == 0 {
		return k, err
	}
	m.r.cfg.Carried.Received.Add(uint64(k))
	m.r.cfg.Download.Passed(k)
	if !m.carries.Load() {
		return k, err
	}
	if refused := m.pass(k); refused != nil {
		return 0, refused
	}
	return k, err
}

func (m *meteredStream) Write(b []byte) (int, error) {
	m.carries.Store(true)
	k, err := m.Stream.Write(b)
	m.r.cfg.Carried.Sent.Add(uint64(max(k, 0)))
	m.r.cfg.Upload.Passed(max(k, 0))
	return k, err
}

// pass waits until n bytes that have come may go on: a guest's for the turn of all guests, in which
// they are in no member's way, and then for that of all. A member's wait only where this peer's own
// rates have bounds.
func (m *meteredStream) pass(n int) error {
	if m.r.env.Members.Has(m.Conn().RemotePeer()) && !m.r.bounded {
		return nil
	}
	if m.r.isGuest(m.Conn().RemotePeer()) {
		if err := m.await(n, m.r.guestRate); err != nil {
			return err
		}
	}
	return m.await(n, m.r.rate)
}

// await takes a turn for n bytes and waits for it, unless the stream ends.
func (m *meteredStream) await(n int, rate *limits.Bucket) error {
	wait, err := rate.TurnSoon(n, time.Now())
	if err != nil || wait == 0 {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-m.ctx.Done():
		rate.GiveBack(n)
		return net.ErrClosed
	}
}

// The relay clears deadlines when the two sides are connected; the end of the time for one
// connection stays.

func (m *meteredStream) SetDeadline(t time.Time) error { return m.Stream.SetDeadline(m.within(t)) }

func (m *meteredStream) SetReadDeadline(t time.Time) error {
	return m.Stream.SetReadDeadline(m.within(t))
}

func (m *meteredStream) within(t time.Time) time.Time {
	if t.IsZero() || t.After(m.until) {
		return m.until
	}
	return t
}

func (m *meteredStream) Close() error { m.end(); return m.Stream.Close() }
func (m *meteredStream) Reset() error { m.end(); return m.Stream.Reset() }

// ResetWithError implements network.MuxedStream.
func (m *meteredStream) ResetWithError(code network.StreamErrorCode) error {
	m.end()
	return m.Stream.ResetWithError(code)
}
