package gossip

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

func joinWith(t *testing.T, s *sim.Net, i int) (*Topic, *heard) {
	t.Helper()
	h := &heard{}
	return join(t, s.Hosts[i], Config{
		Topic: name, Boot: 1, Kinds: []uint8{1}, Deliver: h.deliver,
		Heartbeat: LANHeartbeat,
	}), h
}

// meet expects that the two hosts hear each other.
func meet(t *testing.T, topics []*Topic, ears []*heard) {
	t.Helper()
	for i, topic := range topics {
		if err := topic.Publish(t.Context(), 1, fmt.Appendf(nil, "from %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(3 * time.Second)
	for i, h := range ears {
		if got := h.take(); len(got) != len(topics)-1 {
			t.Errorf("host %d heard %q", i, got)
		}
	}
}

// The identify of libp2p tells neighbours of a new protocol a few times only: then they do not know
// that a peer takes part.
func TestPeersHearEachOtherWhenIdentifyIsExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, 10*time.Millisecond)
		a, earsA := joinWith(t, s, 0)
		s.ConnectAll()
		time.Sleep(time.Second)
		for i := range 15 {
			s.Hosts[1].SetStreamHandler(protocol.ID(fmt.Sprintf("/test/%d", i)),
				func(st network.Stream) { _ = st.Reset() })
			time.Sleep(50 * time.Millisecond)
		}
		b, earsB := joinWith(t, s, 1)
		time.Sleep(3 * time.Second)
		meet(t, []*Topic{a, b}, []*heard{earsA, earsB})
	})
}

// A peer joins, for example after a restart on a host that lives on, while its links are down, and
// the connections outlive that.
func TestPeersHearEachOtherAfterACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, 10*time.Millisecond)
		a, earsA := joinWith(t, s, 0)
		s.ConnectAll()
		time.Sleep(time.Second)
		s.Cut(0, 1)
		b, earsB := joinWith(t, s, 1)
		time.Sleep(20 * time.Second)
		if s.Hosts[0].Network().Connectedness(s.Hosts[1].ID()) != network.Connected {
			t.Fatal("the connection is gone: this test shows nothing")
		}
		s.Heal(0, 1)
		time.Sleep(10 * time.Second)
		meet(t, []*Topic{a, b}, []*heard{earsA, earsB})
	})
}

// dialling counts the streams for which a host may dial.
type dialling struct {
	host.Host
	all, may *atomic.Int32
}

func (d dialling) NewStream(ctx context.Context, p peer.ID, protos ...protocol.ID) (network.Stream, error) {
	d.all.Add(1)
	if no, _ := network.GetNoDial(ctx); !no {
		d.may.Add(1)
	}
	return d.Host.NewStream(ctx, p, protos...)
}

// Gossipsub opens its streams that way.
func TestGossipsubDialsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, 10*time.Millisecond)
		var all, may atomic.Int32
		s.Hosts[0] = dialling{s.Hosts[0], &all, &may}
		joinWith(t, s, 0)
		joinWith(t, s, 1)
		s.ConnectAll()
		time.Sleep(3 * time.Second)
		if all.Load() == 0 || may.Load() > 0 {
			t.Errorf("%d streams, of which %d may dial", all.Load(), may.Load())
		}
	})
}

// Neighbours that are not in the topic are tried ever more seldom, and cost nothing once they are
// gone.
func TestNeighboursOutsideTheTopicAreTriedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, 10*time.Millisecond)
		a, _ := joinWith(t, s, 0)
		st, err := newStreams(s.Hosts[0], "/another/1.0.0", a.topic)
		if err != nil {
			t.Fatal(err)
		}
		defer st.tell.Close()
		s.ConnectAll()
		for beat := range 200 {
			st.look(beat)
		}
		if p := st.tries[s.Hosts[1].ID()]; p.pause != maxStreamPause {
			t.Errorf("after 200 heartbeats: %+v", p)
		}
		s.Close(1)
		time.Sleep(time.Second)
		if st.look(200); len(st.tries) != 0 {
			t.Error("who is gone is still tried")
		}
	})
}
