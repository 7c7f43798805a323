package gossip

import (
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// intruder is a libp2p program that speaks the topic's protocol and sends what it likes.
type intruder struct {
	t     *testing.T
	host  host.Host
	topic *pubsub.Topic
	heard *pubsub.Subscription
}

func newIntruder(t *testing.T, s *sim.Net, i int, opts ...pubsub.Option) *intruder {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	opts = append(opts, pubsub.WithGossipSubProtocols([]protocol.ID{protocolOf(name)}, features),
		pubsub.WithFloodPublish(true))
	ps, err := pubsub.NewGossipSub(ctx, s.Hosts[i], opts...)
	if err != nil {
		t.Fatal(err)
	}
	topic, err := ps.Join(name)
	if err != nil {
		t.Fatal(err)
	}
	sub, err := topic.Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	s.Connect(i, 0)
	time.Sleep(2 * time.Second)
	return &intruder{t, s.Hosts[i], topic, sub}
}

func (in *intruder) say(b []byte) {
	in.t.Helper()
	if err := in.topic.Publish(in.t.Context(), b); err != nil {
		in.t.Fatal(err)
	}
}

// send sends a message as it is, signature and all, over a stream of its own.
func (in *intruder) send(to peer.ID, m *pb.Message) {
	in.t.Helper()
	s, err := in.host.NewStream(in.t.Context(), to, protocolOf(name))
	if err != nil {
		in.t.Fatal(err)
	}
	b, err := proto.Marshal(&pb.RPC{Publish: []*pb.Message{m}})
	if err != nil {
		in.t.Fatal(err)
	}
	if _, err := s.Write(append(binary.AppendUvarint(nil, uint64(len(b))), b...)); err != nil {
		in.t.Fatal(err)
	}
	time.Sleep(time.Second)
	_ = s.Reset()
}

func TestForeignMessagesGoNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, time.Millisecond)
		_, ears := line(t, s, nil)
		in := newIntruder(t, s, s.Add())
		in.say([]byte("not an announcement"))
		in.say(announcement{kind: 1, boot: 1, counter: 1, body: make([]byte, MaxBody+1)}.append(nil))
		in.say(announcement{kind: 77, boot: 1, counter: 2}.append(nil))
		in.say(append(announcement{kind: 1, boot: 1, counter: 3}.append(nil), 0))
		expect(t, "host 0", ears[0])
		expect(t, "host 1", ears[1])
		in.say(announcement{kind: 1, boot: 1, counter: 4, body: []byte("well made")}.append(nil))
		expect(t, "host 0", ears[0], slot.PeerID(in.host.ID()).Short()+" 1 well made")
		in.say(announcement{kind: 1, boot: 1, counter: 4, body: []byte("same counter")}.append(nil))
		expect(t, "host 0", ears[0])
	})
}

func TestUnsignedMessagesGoNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 1, time.Millisecond)
		_, ears := line(t, s, nil)
		in := newIntruder(t, s, s.Add(), pubsub.WithMessageSignaturePolicy(pubsub.LaxNoSign))
		in.say(announcement{kind: 1, boot: 1, counter: 1, body: []byte("unsigned")}.append(nil))
		expect(t, "host 0", ears[0])
	})
}

func TestReplayedMessagesGoNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, time.Millisecond)
		topics, ears := line(t, s, nil)
		in := newIntruder(t, s, s.Add())
		author := slot.PeerID(s.Hosts[1].ID()).Short()
		if err := topics[1].Publish(t.Context(), 1, []byte("vote")); err != nil {
			t.Fatal(err)
		}
		expect(t, "host 0", ears[0], author+" 1 vote")
		m, err := in.heard.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // gossipsub itself remembers messages for 2 minutes
		if err := topics[1].Publish(t.Context(), 1, []byte("later")); err != nil {
			t.Fatal(err)
		}
		expect(t, "host 0", ears[0], author+" 1 later")
		in.send(s.Hosts[0].ID(), m.Message)
		expect(t, "host 0", ears[0])
	})
}

func TestFloodIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 1, time.Millisecond)
		topics, ears := line(t, s, nil)
		o := topics[0].origins
		o.mu.Lock()
		o.bounds.rate, o.bounds.burst = 1, 20
		o.mu.Unlock()
		in := newIntruder(t, s, s.Add())
		for i := range 200 {
			in.say(announcement{kind: 1, boot: 1, counter: uint64(i + 1)}.append(nil))
		}
		time.Sleep(5 * time.Second)
		if n := len(ears[0].take()); n < 20 || n > 26 {
			t.Errorf("%d of 200 announcements delivered, want about 20", n)
		}
	})
}
