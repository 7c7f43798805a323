package peers

import (
	"context"
	"log/slog"
	"slices"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
)

// Env is what the parts of one Network have in common.
type Env struct {
	Host    host.Host
	Tasks   *Group
	Dialer  *Dialer
	Book    *Book
	Members *Members
	Greeted *Greeted
	Log     *slog.Logger
}

// NewEnv is the Env of a host. Its dialer asks lookup where a peer is, and dials by itself once it
// is started.
func NewEnv(h host.Host, group *Group, lookup Lookup, cfg DialConfig, log *slog.Logger) Env {
	env := Env{Host: h, Tasks: group, Members: NewMembers(h.ConnManager()), Greeted: NewGreeted(), Log: log}
	env.Book = newBook(env, cfg.PeersFile)
	env.Dialer = newDialer(env, lookup, cfg)
	return env
}

// SetMembers replaces the members of the run, this peer not among them. It returns those that were
// not among them before.
func (e Env) SetMembers(ids map[peer.ID]struct{}) (added []peer.ID) {
	added = e.Members.Set(ids)
	e.Book.noteMembers(ids)
	return added
}

// Notify has news of connections given to f until the goroutines of the group have ended.
func (e Env) Notify(f network.Notifiee) {
	e.Host.Network().Notify(f)
	e.Tasks.After(func() { e.Host.Network().StopNotify(f) })
}

// OnConnection has f called when a peer connects and when its last connection ends, one call at a
// time and in order. f must not block for long. Peers connected already are not reported. It ends
// with the task group, or when the function returned is called.
func (e Env) OnConnection(f func(id peer.ID, connected bool)) (cancel func()) {
	return onEvent(e, func(ev event.EvtPeerConnectednessChanged) {
		f(ev.Peer, ev.Connectedness != network.NotConnected)
	})
}

// onEvent calls f with each event of a kind, one after the other, until cancel is called.
func onEvent[T any](e Env, f func(T)) (cancel func()) {
	sub, err := e.Host.EventBus().Subscribe(new(T), eventbus.BufSize(1024))
	if err != nil {
		panic(err) // it is an event
	}
	ctx, cancel := context.WithCancel(e.Tasks.Context())
	started := e.Tasks.Go(func() {
		defer sub.Close() //nolint:errcheck // nobody is left to tell
		for {
			select {
			case <-ctx.Done():
				return
			case v := <-sub.Out():
				f(v.(T))
			}
		}
	})
	if !started {
		_ = sub.Close() // nobody is left to tell
	}
	return cancel
}

// Connected says whether there is a connection to a peer, over a limited relay alone not counted.
func (e Env) Connected(id peer.ID) bool {
	return e.Host.Network().Connectedness(id) == network.Connected
}

// ConnectedDirectly says whether there is a connection to a peer that goes through no relay.
func (e Env) ConnectedDirectly(id peer.ID) bool {
	return slices.ContainsFunc(e.Host.Network().ConnsToPeer(id), func(c network.Conn) bool {
		return !c.IsClosed() && !IsRelayed(c.RemoteMultiaddr())
	})
}

// BestConn is the connection to a peer that new streams take: direct before relayed, relayed before
// limited.
func (e Env) BestConn(id peer.ID) (best network.Conn, ok bool) {
	rank := func(c network.Conn) int {
		switch {
		case c.Stat().Limited:
			return 2
		case IsRelayed(c.RemoteMultiaddr()):
			return 1
		}
		return 0
	}
	for _, c := range e.Host.Network().ConnsToPeer(id) {
		if !c.IsClosed() && (best == nil || rank(c) < rank(best)) {
			best = c
		}
	}
	return best, best != nil
}

// Speaks says whether a peer has reported that it speaks a protocol.
func (e Env) Speaks(id peer.ID, proto protocol.ID) bool {
	known, err := e.Host.Peerstore().SupportsProtocols(id, proto)
	return err == nil && slices.Contains(known, proto)
}

// reached says whether there is a connection to a peer, of whatever kind.
func (e Env) reached(id peer.ID) bool {
	return e.Host.Network().Connectedness(id) != network.NotConnected
}
