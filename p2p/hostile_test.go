package p2p

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// heap is the bytes in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A stranger that announces long messages and never sends them makes this peer reserve nothing, and
// holds few streams.
func TestAnnouncedLengthsReserveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		b.SetHello(func(slot.PeerID, Hello) (Hello, error) { return sampleHello(), nil })
		newPost(b)
		before := heap()
		for _, proto := range []string{ProtocolHello, ProtocolLedger} {
			limit := map[string]uint32{ProtocolHello: maxHello, ProtocolLedger: testLimit}[proto]
			for range 64 {
				s, err := a.Open(t.Context(), b.ID(), proto)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Reset() //nolint:errcheck // the test is over
				_, _ = s.Write(binary.BigEndian.AppendUint32(nil, limit))
			}
		}
		time.Sleep(time.Second)
		if grown := int64(heap()) - int64(before); grown > 16<<20 {
			t.Errorf("%d MiB are held for messages that nobody sent", grown>>20)
		}
		b.streams.mu.Lock()
		for key, n := range b.streams.mu.inbound {
			if n > cmp.Or(protocols[key.proto].atOnce, streamsAtOnce) {
				t.Errorf("%d streams of %s are handled at once", n, key.proto)
			}
		}
		b.streams.mu.Unlock()
		time.Sleep(helloTimeout) // their streams have gone, and others may say hello
		if _, err := a.Hello(t.Context(), b.ID(), sampleHello()); err != nil {
			t.Errorf("after a flood: %v", err)
		}
	})
}

// Messages for names that nobody can reach do not leave goroutines behind, nor keep others from
// being served.
func TestOutboxesOfNobodyGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		pa, pb := newPost(a), newPost(b)
		for range 200 {
			id := peerOf(t)
			pa.say(slot.PeerID(id), 0, 1)
		}
		pa.say(b.ID(), 0, 3)
		time.Sleep(messengerOpen + messengerGone + 2*time.Second)
		pa.Messenger.mu.Lock()
		n := len(pa.Messenger.mu.out)
		pa.Messenger.mu.Unlock()
		if n != 1 {
			t.Errorf("%d outboxes are left", n)
		}
		if got, _, _ := pb.counts(); len(got) != 3 {
			t.Errorf("the one that can be reached got %v", got)
		}
	})
}

func TestOutboxesAreBounded(t *testing.T) {
	n := loopback(t, Config{})
	m := n.NewMessenger(ProtocolLedger, testLimit, func(slot.PeerID, []byte) {}, nil)
	m.mu.Lock()
	for i := range maxOutboxes {
		m.mu.out[slot.PeerID(fmt.Sprint(i))] = &outbox{m: m, wake: make(chan struct{}, 1)}
	}
	err := m.enqueue("one more", nil)
	m.mu.Unlock()
	if !errors.Is(err, ErrQueueFull) {
		t.Errorf("one more: %v", err)
	}
}

// Who announces a long answer and sends nothing of it is as unresponsive as who says nothing, and
// takes no memory that others need.
func TestALengthIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		b.Handle(ProtocolHello, func(_ slot.PeerID, s wire.Stream) {
			_, _ = s.Write(binary.BigEndian.AppendUint32(nil, maxHello))
			time.Sleep(time.Hour)
		})
		ended := make(chan error)
		go func() {
			_, err := a.Greet(t.Context(), b.ID(), sampleHello(), time.Second)
			ended <- err
		}()
		time.Sleep(helloTimeout - time.Second)
		if giveBack, err := a.answers.Lend(helloMemory); err != nil {
			t.Errorf("memory is lent for an answer that does not come: %v", err)
		} else {
			giveBack()
		}
		if err := <-ended; !errors.Is(err, ErrUnresponsive) {
			t.Errorf("it ends with: %v", err)
		}
	})
}

// A caller that gives up says nothing of the peer.
func TestAGreetingGivenUpIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		b.Handle(ProtocolHello, func(slot.PeerID, wire.Stream) { time.Sleep(time.Hour) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Greet(ctx, b.ID(), sampleHello(), 2*time.Second); err == nil || errors.Is(err, ErrUnresponsive) {
			t.Errorf("it ends with: %v", err)
		}
	})
}
