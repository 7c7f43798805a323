package p2p

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/util"
)

// miser relays as one may who wants a pair apart: of each circuit it carries so many bytes, which
// are handshakes and pulses, and then 4 kB/s.
type miser struct {
	n        *Network
	most     int
	circuits atomic.Int32
}

// relay answers on the protocol of relays.
func (m *miser) relay(in network.Stream) {
	defer in.Reset() //nolint:errcheck // it is over
	var msg pb.HopMessage
	if util.NewDelimitedReader(in, 4<<10).ReadMsg(&msg) != nil {
		return
	}
	target := peer.ID(msg.GetPeer().GetId())
	ok := pb.HopMessage{Type: pb.HopMessage_STATUS.Enum(), Status: pb.Status_OK.Enum()}
	if msg.GetType() == pb.HopMessage_RESERVE {
		ends := uint64(time.Now().Add(time.Hour).Unix())
		ok.Reservation = &pb.Reservation{Expire: &ends}
	}
	var out network.Stream
	if msg.GetType() == pb.HopMessage_CONNECT {
		if out = m.stop(target, in.Conn().RemotePeer()); out == nil {
			return
		}
	}
	if util.NewDelimitedWriter(in).WriteMsg(&ok) != nil || out == nil {
		_ = in.CloseWrite()
		return
	}
	m.circuits.Add(1)
	go m.carry(in, out)
	m.carry(out, in)
}

// stop tells the other end of a circuit; nil: it will not.
func (m *miser) stop(target, from peer.ID) network.Stream {
	ctx := network.WithNoDial(m.n.env.Tasks.Context(), "a relay")
	out, err := m.n.Host().NewStream(ctx, target, proto.ProtoIDv2Stop)
	if err != nil {
		return nil
	}
	msg := pb.StopMessage{Type: pb.StopMessage_CONNECT.Enum(), Peer: util.PeerInfoToPeerV2(peer.AddrInfo{ID: from})}
	if util.NewDelimitedWriter(out).WriteMsg(&msg) == nil {
		msg.Reset()
		if util.NewDelimitedReader(out, 4<<10).ReadMsg(&msg) == nil && msg.GetStatus() == pb.Status_OK {
			return out
		}
	}
	_ = out.Reset()
	return nil
}

func (m *miser) carry(from, to network.Stream) {
	defer from.Reset() //nolint:errcheck // it is over
	defer to.Reset()   //nolint:errcheck // it is over
	b := make([]byte, 2<<10)
	for carried := 0; ; {
		n, err := from.Read(b)
		if carried += n; carried > m.most {
			time.Sleep(500 * time.Millisecond)
		}
		if err != nil {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// TestARelayThatHoldsBackMuch keeps no pair apart while another member relays.
func TestARelayThatHoldsBackMuch(t *testing.T) {
	met := 0
	for liar := 2; liar < 4; liar++ {
		among(t, 4, nil, func(t *testing.T, s *memberNet) {
			m := &miser{n: s.all[liar], most: 60_000}
			s.Hosts[liar].SetStreamHandler(proto.ProtoIDv2Hop, m.relay)
			s.Cut(0, 1)
			good := 0
			for range 20 {
				time.Sleep(15 * time.Second)
				if !connected(s.all[0], s.all[1]) {
					_, _ = s.all[0].Open(t.Context(), s.all[1].ID(), ProtocolHello)
				}
				if got, err := s.echoed(t, 0, 1, vector()); err == nil && bytes.Equal(got, vector()) {
					good++
				}
			}
			if n := int(m.circuits.Load()); good < 17 {
				t.Errorf("through %d of two: %d of 20 exchanges succeed; it had %d circuits", liar, good, n)
			}
			met += int(m.circuits.Load())
		})
	}
	if met == 0 {
		t.Error("no pair met the relay that holds back much: nothing was tried")
	}
}
