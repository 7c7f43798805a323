package hops

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

var (
	errNotMember = errors.New("not a member of the run")
	errSame      = errors.New("both ends are the same peer")
	errUnreached = errors.New("the target is not connected here")
	errRefuses   = errors.New("this peer forwards nothing")
	errLoad      = errors.New("as many streams are forwarded as may be at once")
)

// Answer serves a stream of Protocol.
func (h *Hops) Answer(from slot.PeerID, s wire.Stream) {
	if err := h.answer(peer.ID(from), s); err != nil {
		h.env.Log.Debug("a forwarded stream ended", "from", from, "err", err)
		_ = s.Reset()
	}
}

func (h *Hops) answer(from peer.ID, s wire.Stream) error {
	if !h.env.Members.Has(from) {
		return errNotMember
	}
	if err := s.SetReadDeadline(time.Now().Add(headTimeout)); err != nil {
		return err
	}
	head, err := readHeader(s)
	if err != nil {
		return err
	}
	if err := s.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	switch {
	case head.peer == from || head.peer == h.env.Host.ID():
		return errSame
	case !h.env.Members.Has(head.peer):
		return fmt.Errorf("%s: %w", slot.PeerID(head.peer).Short(), errNotMember)
	case head.leg == legForward:
		return h.forward(from, head.peer, s)
	}
	return h.arrive(from, head.peer, s)
}

// forward carries a stream of an origin to a target that is connected here.
func (h *Hops) forward(origin, target peer.ID, s wire.Stream) error {
	if h.env.Refuses {
		return errRefuses
	}
	if !h.env.Connected(target) {
		return errUnreached
	}
	if !h.load.enter(origin, target) {
		return errLoad
	}
	defer h.load.leave(origin, target)
	ctx, cancel := context.WithTimeout(h.env.Tasks.Context(), openTimeout)
	defer cancel()
	next, err := h.env.Open(ctx, target)
	if err != nil {
		return err
	}
	if err := writeHeader(next, header{legArrive, origin}); err != nil {
		_ = next.Reset()
		return err
	}
	return carry(s, next)
}

// arrive takes a stream that came through a forwarder, and has it handled under the name that its
// origin proves.
func (h *Hops) arrive(via, origin peer.ID, raw wire.Stream) error {
	conf, _ := h.identity.ConfigForPeer(origin)
	s := &stream{raw: raw, via: via, tls: tls.Server(pipe{raw}, only(conf)), broken: func(err error) {
		h.env.Log.Debug("a forwarded stream broke", "origin", origin, "through", via, "err", err)
	}}
	if err := h.shake(h.env.Tasks.Context(), s); err != nil {
		return err
	}
	proto, err := s.begun()
	if errors.Is(err, io.EOF) { // it was kept ready, and nobody took it
		return s.Close()
	}
	if err != nil {
		return err
	}
	if !h.Carries(proto) {
		return fmt.Errorf("%w: a forwarded stream of %.*q", wire.ErrMalformed, maxProtocol, string(proto))
	}
	if !h.env.Members.Has(origin) { // the stream may have been ready for long
		return errNotMember
	}
	handle := h.env.Admit(origin, proto)
	if handle == nil {
		return fmt.Errorf("%s of %s is not admitted", proto, slot.PeerID(origin).Short())
	}
	handle(s)
	return nil
}
