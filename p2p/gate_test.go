package p2p

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/bulk"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// porter admits everybody but one, and does something first.
type porter struct {
	but   atomic.Pointer[slot.PeerID]
	first atomic.Pointer[func()]
}

func (*porter) Ask(slot.PeerID) []byte { return []byte("me") }

func (p *porter) Answer(from slot.PeerID, _ []byte) ([]byte, bool) {
	if f := p.first.Swap(nil); f != nil {
		(*f)()
	}
	but := p.but.Load()
	return []byte("ok"), but == nil || *but != from
}

func (p *porter) Judge(from slot.PeerID, _, _ []byte) error {
	if _, ok := p.Answer(from, nil); !ok {
		return errors.New("not here")
	}
	return nil
}

// inGates runs f with three Networks of one private run, which serve an echo.
func inGates(t *testing.T, f func(t *testing.T, nets []*Network, porters []*porter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 3, 10*time.Millisecond)
		var nets []*Network
		var porters []*porter
		for i := range 3 {
			n, p := simulated(t, s, i, LAN()), &porter{}
			noError(t, n.SetGate(p))
			n.Handle(protocolEcho, echo)
			nets, porters = append(nets, n), append(porters, p)
			for j := range i {
				s.Connect(i, j)
			}
		}
		f(t, nets, porters)
	})
}

// Who is expelled has no stream left, not one that it has opened before, and gets no new one;
// nobody else notices.
func TestExpelled(t *testing.T) {
	inGates(t, func(t *testing.T, nets []*Network, porters []*porter) {
		a, out, other := nets[0], nets[1], nets[2]
		var open []wire.Stream
		for _, n := range nets[1:] {
			st, err := n.Open(t.Context(), a.ID(), protocolEcho)
			if err != nil {
				t.Fatal(err)
			}
			noError(t, wire.WriteMessage(st, []byte("x")))
			if _, err := wire.ReadMessage(st, 10); err != nil {
				t.Fatal(err)
			}
			a.env.Greeted.Note(peer.ID(n.ID()), time.Now())
			open = append(open, st)
		}
		id := out.ID()
		porters[0].but.Store(&id)
		a.Expel(func(p slot.PeerID) bool { return p == id })
		_ = open[0].SetReadDeadline(time.Now().Add(time.Second))
		if _, err := open[0].Read(make([]byte, 1)); err == nil || wire.TimedOut(err) {
			t.Errorf("a stream of who was expelled: %v", err)
		}
		if a.env.Greeted.Has(peer.ID(id), time.Now()) || !a.env.Greeted.Has(peer.ID(other.ID()), time.Now()) {
			t.Error("who is relayed for")
		}
		time.Sleep(2 * peers.AskAgain)
		if b, err := roundTrip(t.Context(), out, a.ID(), protocolEcho, []byte("x")); err == nil && len(b) > 0 {
			t.Errorf("it is let in again: %q", b)
		}
		if _, err := a.Open(t.Context(), id, protocolEcho); !errors.Is(err, peers.ErrNotAdmitted) {
			t.Errorf("it is gone to: %v", err)
		}
		if err := open[1].CloseWrite(); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadAll(open[1]); err != nil {
			t.Errorf("another one's stream: %v", err)
		}
		for _, s := range open {
			_ = s.Reset()
		}
	})
}

// What was decided about a peer while others were expelled is decided anew.
func TestNobodySlipsInWhileOthersAreExpelled(t *testing.T) {
	inGates(t, func(t *testing.T, nets []*Network, porters []*porter) {
		a, b := nets[0], nets[1]
		for i, way := range [][2]*Network{{a, b}, {b, a}} {
			_ = a.env.Host.Network().ClosePeer(b.env.Host.ID())
			time.Sleep(2 * peers.AskAgain)
			meanwhile := func() { a.Expel(func(slot.PeerID) bool { return true }) }
			porters[0].first.Store(&meanwhile)
			s, err := way[0].Open(t.Context(), way[1].ID(), protocolEcho)
			if err == nil {
				_ = s.Reset()
			}
			if a.gate().Knows(b.env.Host.ID()) {
				t.Errorf("way %d: let in by a decision from before", i)
			}
			time.Sleep(2 * peers.AskAgain)
			if got, err := roundTrip(t.Context(), way[0], way[1].ID(), protocolEcho, []byte("x")); err != nil ||
				string(got) != "x" {
				t.Errorf("way %d, again: %q, %v", i, got, err)
			}
		}
	})
}

// expelling is a host on which a peer is expelled while a stream to it is opened.
type expelling struct {
	host.Host
	meanwhile func()
}

func (h expelling) NewStream(ctx context.Context, to peer.ID, ids ...protocol.ID) (network.Stream, error) {
	s, err := h.Host.NewStream(ctx, to, ids...)
	h.meanwhile()
	return s, err
}

// A stream to who is expelled while it is opened is none, on whatever connection.
func TestExpelledWhileAStreamIsOpened(t *testing.T) {
	inGates(t, func(t *testing.T, nets []*Network, _ []*porter) {
		a, to := nets[0], peer.ID(nets[1].ID())
		opens := map[string]func() (interface{ Reset() error }, error){
			"Open": func() (interface{ Reset() error },
				error,
			) {
				return a.Open(t.Context(), slot.PeerID(to), protocolEcho)
			},
			"a gossip's": func() (interface{ Reset() error }, error) {
				return a.Host().NewStream(t.Context(), to, protocolEcho)
			},
		}
		for name, open := range opens {
			s, err := open()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			_ = s.Reset()
			plain := a.env.Host
			a.env.Host = expelling{plain, func() { a.gate().Purge(func(slot.PeerID) bool { return true }) }}
			if s, err = open(); !errors.Is(err, peers.ErrNotAdmitted) {
				t.Errorf("%s: %v", name, err)
				_ = s.Reset()
			}
			a.env.Host = plain
			time.Sleep(2 * peers.AskAgain)
		}
	})
}

// TestExpelledHasNoBulk: expelling a peer ends its bulk streams, too.
func TestExpelledHasNoBulk(t *testing.T) {
	a, b := tcpPair(t, nil)
	var id slot.PeerID
	for _, n := range []*Network{a, b} {
		noError(t, n.SetGate(&porter{}))
		n.Handle(ProtocolExchange, echo)
		id = n.ID()
	}
	s := openBulk(t, a, b, ProtocolExchange)
	if _, isBulk := s.(*bulk.Stream); !isBulk {
		t.Fatalf("a stream of type %T", s)
	}
	if _, err := s.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	noError(t, readSome(s))
	a.Expel(func(p slot.PeerID) bool { return p == id })
	if err := readSome(s); err == nil {
		t.Error("its bulk connection is kept")
	}
}
