package membership

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// takeAll empties an inbox by hand, as one verifier would.
func takeAll(in *inbox, n int) (got []string) {
	for range n {
		q, b, _ := in.next()
		got = append(got, string(q.from)+string(b))
		in.done(q)
	}
	return got
}

func TestInboxServesSendersInTurn(t *testing.T) {
	in := newInbox()
	for i := range 4 {
		in.put("a", fmt.Append(nil, i))
	}
	in.put("b", []byte("0"))
	in.put("c", []byte("0"))
	if got := fmt.Sprint(takeAll(in, 6)); got != "[a0 b0 c0 a1 a2 a3]" {
		t.Errorf("taken in the order %s", got)
	}
	if len(in.mu.queues) != 0 || in.mu.bytes != 0 {
		t.Errorf("empty, it keeps %d queues and %d bytes", len(in.mu.queues), in.mu.bytes)
	}
}

func TestInboxFlooderLosesItsOwn(t *testing.T) {
	in := newInbox()
	in.put("quiet", []byte("1"))
	for i := range 3 * inboxPeerMessages {
		in.put("flood", fmt.Append(nil, i))
	}
	in.put("quiet", []byte("2"))
	if n := len(in.mu.queues["flood"].messages); n != inboxPeerMessages {
		t.Errorf("%d of its messages wait", n)
	}
	want := fmt.Sprintf("[quiet1 flood%d quiet2]", 2*inboxPeerMessages)
	if got := fmt.Sprint(takeAll(in, 3)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestInboxBoundsMemory(t *testing.T) {
	in := newInbox()
	in.put("quiet", []byte("1"))
	big := make([]byte, slot.MaxMessage)
	for i := range 40 * 8 {
		in.put(slot.PeerID(fmt.Sprint("flood", i%40)), big)
		if in.mu.bytes > inboxBytes {
			t.Fatalf("%d bytes wait", in.mu.bytes)
		}
	}
	if got := takeAll(in, 1)[0]; got != "quiet1" {
		t.Errorf("the first message was lost to a flood: got %.20q", got)
	}
	// A queue that lost all it had keeps one turn, not two.
	in = newInbox()
	in.put("a", big)
	for in.mu.bytes > 0 {
		in.pop(in.largest())
	}
	in.put("a", []byte("1"))
	in.put("a", []byte("2"))
	if in.next(); len(in.mu.turn) != 0 {
		t.Error("a sender has two turns")
	}
	in = newInbox()
	for i := range inboxPeers + 10 {
		in.put(slot.PeerID(fmt.Sprint(i)), nil)
	}
	if len(in.mu.queues) != inboxPeers {
		t.Errorf("%d senders wait", len(in.mu.queues))
	}
}

// With several verifiers a sender's messages still come out in order, and closing lets all go.
func TestInboxKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newInbox()
		var mu sync.Mutex
		got := map[slot.PeerID]int{}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					q, b, ok := in.next()
					if !ok {
						return
					}
					mu.Lock()
					if string(b) != fmt.Sprint(got[q.from]) {
						t.Errorf("%s: %s after %d messages", q.from, b, got[q.from])
					}
					got[q.from]++
					mu.Unlock()
					in.done(q)
				}
			})
		}
		for i := range 200 {
			for _, p := range []slot.PeerID{"a", "b", "c"} {
				in.put(p, fmt.Append(nil, i))
			}
		}
		synctest.Wait()
		if got["a"] != 200 || got["b"] != 200 || got["c"] != 200 {
			t.Errorf("taken: %v", got)
		}
		in.close()
		in.put("a", nil)
		wg.Wait()
	})
}
