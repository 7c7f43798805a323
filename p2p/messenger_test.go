package p2p

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// post is one side's messenger and all that it delivered and dropped, messages being numbers.
type post struct {
	*Messenger
	mu struct {
		sync.Mutex
		got   []uint64
		drops []uint64
		errs  []error
	}
	block chan struct{} // deliver waits for it, if set
}

const testLimit = 1 << 16

func newPost(n *Network) *post {
	p := &post{}
	p.Messenger = n.NewMessenger(ProtocolLedger, testLimit, p.take, p.dropped)
	return p
}

func (p *post) take(_ slot.PeerID, msg []byte) {
	if p.block != nil {
		<-p.block
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.got = append(p.mu.got, binary.BigEndian.Uint64(msg))
}

func (p *post) dropped(_ slot.PeerID, msg []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.drops = append(p.mu.drops, binary.BigEndian.Uint64(msg))
	p.mu.errs = append(p.mu.errs, err)
}

func (p *post) counts() (got, drops []uint64, errs []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.mu.got), slices.Clone(p.mu.drops), slices.Clone(p.mu.errs)
}

func (p *post) say(to slot.PeerID, from, until uint64) {
	for i := from; i < until; i++ {
		p.Send(to, binary.BigEndian.AppendUint64(nil, i))
	}
}

func upTo(from, until uint64) (all []uint64) {
	for i := from; i < until; i++ {
		all = append(all, i)
	}
	return all
}

func TestMessagesArriveInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		pa, pb := newPost(a), newPost(b)
		pa.say(b.ID(), 0, 500)
		pb.say(a.ID(), 1000, 1500)
		time.Sleep(5 * time.Second)
		if got, drops, _ := pb.counts(); !slices.Equal(got, upTo(0, 500)) || len(drops) != 0 {
			t.Errorf("b got %v and dropped %v", got, drops)
		}
		if got, _, _ := pa.counts(); !slices.Equal(got, upTo(1000, 1500)) {
			t.Errorf("a got %v", got)
		}
		time.Sleep(time.Hour) // the stream is closed meanwhile
		pa.say(b.ID(), 500, 600)
		time.Sleep(5 * time.Second)
		if got, _, _ := pb.counts(); !slices.Equal(got, upTo(0, 600)) {
			t.Errorf("after an hour b got %v", got)
		}
	})
}

func TestMessagesToNobodyAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, b := pair(t)
		pa := newPost(a)
		newPost(b)
		s.Cut(0, 1)
		time.Sleep(time.Minute)
		pa.say(b.ID(), 0, 50)
		time.Sleep(messengerOpen + time.Second)
		if _, drops, _ := pa.counts(); !slices.Equal(drops, upTo(0, 50)) {
			t.Errorf("reported %v", drops)
		}
		s.Heal(0, 1)
		time.Sleep(time.Minute)
		pa.say(b.ID(), 50, 60)
		time.Sleep(10 * time.Second)
		if _, drops, _ := pa.counts(); len(drops) != 50 {
			t.Errorf("after healing: reported %v", drops)
		}
	})
}

func TestQueuesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		pa, pb := newPost(a), newPost(b)
		pb.block = make(chan struct{})
		defer close(pb.block)
		big := make([]byte, testLimit)
		for range 10 * maxQueuedBytes / testLimit {
			pa.Send(b.ID(), big)
		}
		pa.Send(b.ID(), make([]byte, testLimit+1))
		time.Sleep(time.Second)
		_, drops, errs := pa.counts()
		if len(drops) < 8*maxQueuedBytes/testLimit || !errors.Is(errs[0], ErrQueueFull) ||
			!errors.Is(errs[len(errs)-1], wire.ErrTooLarge) {
			t.Errorf("%d drops: %v … %v", len(drops), errs[:1], errs[max(0, len(errs)-1):])
		}
	})
}

// TestNewStreamWaitsForTheOld sends on two streams the way a peer does whose first one broke.
func TestNewStreamWaitsForTheOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		pb := newPost(b)
		pb.block = make(chan struct{}, 100)
		open := func(from, until uint64) wire.Stream {
			s, err := a.Open(t.Context(), b.ID(), ProtocolLedger)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range upTo(from, until) {
				noError(t, wire.WriteMessage(s, binary.BigEndian.AppendUint64(nil, i)))
			}
			return s
		}
		first := open(0, 5)
		_ = first.CloseWrite()
		second := open(5, 10)
		_ = second.CloseWrite()
		time.Sleep(time.Second)
		for range 100 {
			pb.block <- struct{}{}
		}
		time.Sleep(time.Second)
		if got, _, _ := pb.counts(); !slices.Equal(got, upTo(0, 10)) {
			t.Errorf("got %v", got)
		}
		hung := open(10, 12) // never closed: its successor cuts it off
		time.Sleep(time.Second)
		open(12, 14)
		time.Sleep(messengerTurn + time.Second)
		if got, _, _ := pb.counts(); !slices.Equal(got, upTo(0, 14)) {
			t.Errorf("got %v", got)
		}
		_ = hung.Reset()
	})
}

func TestOversizedMessageEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		pb := newPost(b)
		s, err := a.Open(t.Context(), b.ID(), ProtocolLedger)
		if err != nil {
			t.Fatal(err)
		}
		_ = wire.WriteMessage(s, make([]byte, testLimit+1)) // may be cut off half way
		if _, err := s.Read(make([]byte, 1)); err == nil {
			t.Error("the stream lives on")
		}
		if got, _, _ := pb.counts(); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	})
}

// A network serves one messenger after another: what the first was sending and receiving does not
// hold up the second.
func TestAMessengerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		first, there := newPost(a), newPost(b)
		first.say(b.ID(), 0, 100)
		there.say(a.ID(), 0, 100)
		time.Sleep(time.Second)
		first.say(b.ID(), 100, 200)
		first.Close()
		first.Close()
		time.Sleep(time.Second) // what is on its way when it closes is lost
		second := newPost(a)
		defer second.Close()
		first.say(b.ID(), 200, 210) // into the void
		second.say(b.ID(), 210, 300)
		there.say(a.ID(), 100, 200)
		time.Sleep(time.Second)
		got, _, _ := there.counts()
		if len(got) != 290 || !slices.IsSorted(got) {
			t.Errorf("the other side got %d messages of 290", len(got))
		}
		got, _, _ = second.counts()
		if len(got) != 100 || got[0] != 100 {
			t.Errorf("the second messenger got %d messages of 100", len(got))
		}
		if got, _, _ = first.counts(); len(got) != 100 {
			t.Errorf("the first messenger got %d messages of 100", len(got))
		}
	})
}
