package p2p

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

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

// A stranger that announces long messages and never sends them makes this peer reserve nothing, and holds few streams.
func TestAnnouncedLengthsReserveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		b.SetHello(func(slot.PeerID, Hello) (Hello, error) { return sampleHello(), nil })
		newPost(b)
		before := heap()
		for _, proto := range []string{ProtocolHello, ProtocolLedger} {
			limit := map[string]uint32{ProtocolHello: MaxHello, ProtocolLedger: testLimit}[proto]
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
		b.mu.Lock()
		for key, n := range b.mu.inbound {
			if n > streamsAtOnce(key.proto) {
				t.Errorf("%d streams of %s are handled at once", n, key.proto)
			}
		}
		b.mu.Unlock()
		time.Sleep(helloTimeout) // their streams have gone, and others may say hello
		if _, err := a.Hello(t.Context(), b.ID(), sampleHello()); err != nil {
			t.Errorf("after a flood: %v", err)
		}
	})
}

// When large hellos take all the memory there is for them, small ones still get through.
func TestLargeHellosLeaveRoomForSmallOnes(t *testing.T) {
	memory := newBudget(helloMemory)
	large := MaxHello
	var back []func()
	for {
		giveBack, err := memory.lend(large)
		if err != nil {
			break
		}
		back = append(back, giveBack)
	}
	if len(back) < helloMemory/large || len(back) > helloMemory/(large-smallMessage) {
		t.Errorf("%d large ones fit", len(back))
	}
	if _, err := memory.lend(smallMessage); err != nil {
		t.Errorf("a small one: %v", err)
	}
	back[0]()
	if _, err := memory.lend(large); err != nil {
		t.Errorf("after one was given back: %v", err)
	}
}

func TestReadMessage(t *testing.T) {
	for _, n := range []int{0, 1, 4095, 4096, 4097, 100_000, 1 << 20} {
		var b bytes.Buffer
		want := bytes.Repeat([]byte{7}, n)
		if err := wire.WriteMessage(&b, want); err != nil {
			t.Fatal(err)
		}
		whole := b.Bytes()
		memory := newBudget(1 << 20)
		got, giveBack, err := readMessage(bytes.NewReader(whole), 1<<20, memory)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: got %d, %v", n, len(got), err)
		}
		giveBack()
		if _, _, err := readMessage(bytes.NewReader(whole[:len(whole)-1]), 1<<20, memory); n > 0 && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes, the last one missing: %v", n, err)
		}
		if _, _, err := readMessage(bytes.NewReader(whole), n-1, memory); n > 0 && !errors.Is(err, wire.ErrTooLarge) {
			t.Errorf("%d bytes where fewer are allowed: %v", n, err)
		}
		if memory.left.Load() != 1<<20 {
			t.Errorf("%d bytes: %d of the budget left", n, memory.left.Load())
		}
	}
}

// Messages for names that nobody can reach do not leave goroutines behind, nor keep others from being served.
func TestOutboxesOfNobodyGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		pa, pb := newPost(a), newPost(b)
		for range 200 {
			id, err := peerOf(t)
			if err != nil {
				t.Fatal(err)
			}
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

// Announcements of peers that do not answer make room for others.
func TestUnreachableCandidatesMakeRoom(t *testing.T) {
	n := loopback(t, Config{})
	f := &finder{n: n, candidates: make(map[peer.ID]*candidate), dials: maxDials} // so that it dials nobody
	offer := func() peer.ID {
		id, err := peerOf(t)
		if err != nil {
			t.Fatal(err)
		}
		f.consider(t.Context(), peer.AddrInfo{ID: id})
		return id
	}
	for i := range maxCandidates {
		f.candidates[peer.ID(fmt.Sprint(i))] = &candidate{info: peer.AddrInfo{ID: peer.ID(fmt.Sprint(i))}}
	}
	if id := offer(); f.candidates[id] != nil || len(f.candidates) != maxCandidates {
		t.Error("one that may answer was dropped")
	}
	f.candidates["17"].failures = 1
	if id := offer(); f.candidates[id] == nil || f.candidates["17"] != nil || len(f.candidates) != maxCandidates {
		t.Error("one that did not answer was kept")
	}
}

// Strangers, whoever they are and however many, do not push the members out of the peers file.
func TestMembersAreRemembered(t *testing.T) {
	n := loopback(t, Config{})
	member, err := peerOf(t)
	if err != nil {
		t.Fatal(err)
	}
	n.Protect([]slot.PeerID{slot.PeerID(member)})
	for range maxRemembered + 10 {
		id, err := peerOf(t)
		if err != nil {
			t.Fatal(err)
		}
		n.memory.met(id)
	}
	n.memory.mu.Lock()
	defer n.memory.mu.Unlock()
	if _, ok := n.memory.mu.peers[member]; !ok || len(n.memory.mu.peers) != maxRemembered {
		t.Errorf("the member is remembered: %v, among %d", ok, len(n.memory.mu.peers))
	}
}

// Who announces a long answer and sends nothing of it is as mute as who says nothing, and takes no memory that others need.
func TestALengthIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		b.Handle(ProtocolHello, func(_ slot.PeerID, s wire.Stream) {
			_, _ = s.Write(binary.BigEndian.AppendUint32(nil, MaxHello))
			time.Sleep(time.Hour)
		})
		ended := make(chan error)
		go func() {
			_, err := a.Greet(t.Context(), b.ID(), sampleHello(), time.Second)
			ended <- err
		}()
		time.Sleep(helloTimeout - time.Second)
		if left := a.answers.left.Load(); left != helloMemory {
			t.Errorf("%d bytes are lent for an answer that does not come", helloMemory-left)
		}
		if err := <-ended; !errors.Is(err, ErrMute) {
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
		if _, err := a.Greet(ctx, b.ID(), sampleHello(), 2*time.Second); err == nil || errors.Is(err, ErrMute) {
			t.Errorf("it ends with: %v", err)
		}
	})
}
