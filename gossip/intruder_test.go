package gossip

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// intruder is a libp2p program that speaks the topic's protocol and sends what it likes.
type intruder struct {
	t     *testing.T
	host  host.Host
	topic *pubsub.Topic
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
	if _, err := topic.Subscribe(); err != nil {
		t.Fatal(err)
	}
	s.Connect(i, 0)
	time.Sleep(2 * time.Second)
	return &intruder{t, s.Hosts[i], topic}
}

func (in *intruder) say(b []byte) {
	in.t.Helper()
	if err := in.topic.Publish(in.t.Context(), b); err != nil {
		in.t.Fatal(err)
	}
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
		unsigned := newIntruder(t, s, s.Add(), pubsub.WithMessageSignaturePolicy(pubsub.LaxNoSign))
		unsigned.say(announcement{kind: 1, boot: 1, counter: 5, body: []byte("unsigned")}.append(nil))
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
