package allreduce

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// slowAnswer is slow where its writer is the owner, who says no hello.
type slowAnswer struct {
	wire.Stream
	began, opened bool
}

func (s *slowAnswer) Write(b []byte) (int, error) {
	if !s.began {
		s.began, s.opened = true, len(b) >= helloSize
	}
	if s.opened {
		return s.Stream.Write(b)
	}
	return slow{s.Stream, 30, 4 * time.Second}.Write(b)
}

// Bytes that are held outlive the reduction, and the next one takes another buffer. Once nobody
// holds them, a reduction's buffer is the next one's, and its contribution's may be encoded into.
func TestHeldBytesOutliveTheReduction(t *testing.T) {
	g := newGroup(t, testParams(300, 100), 3, rand.New(rand.NewPCG(21, 9)))
	whole := []slot.Range{{End: 300}}
	reduce := func() (*Reduction, [][]byte, func()) {
		g.plan.Height++ // another group: no stream of the one before can join it
		g.plan.Opened.Height = g.plan.Height
		g.startAll()
		g.wait()
		b, done := g.running[0].Hold(whole)
		return g.running[0], b, done
	}
	first, held, done := reduce()
	own, was := first.own, slot.Hash(held[0])
	if _, free := own.Reclaim(); free {
		t.Error("a running reduction does not hold what it sends")
	}
	release := func() {
		for _, r := range g.running {
			r.Release()
		}
	}
	release()
	if _, free := own.Reclaim(); !free {
		t.Error("a reduction that was released holds what it has sent")
	}
	second, other, otherDone := reduce()
	if &other[0][0] == &held[0][0] {
		t.Error("the next reduction has the buffer that is held")
	}
	clear(second.result) // as another outcome does
	if slot.Hash(held[0]) != was {
		t.Error("bytes that are held changed")
	}
	done()
	otherDone()
	if b, free := first.Hold(whole); b[0] != nil {
		t.Error("a reduction that was released lends bytes")
	} else {
		free()
	}
	release()
	if _, third, free := reduce(); &third[0][0] != &other[0][0] {
		t.Error("a buffer that nobody holds is not used again")
	} else {
		free()
	}
	g.close()
}

// Two of three have the outcome long before the third, whose link in is slow, and go their way: it
// gets the rest all the same, and then their buffers are free. A new reduction does not wait for
// it.
func TestTheSlowGetTheRestOfWhatIsRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, testParams(300, 100), 3, rand.New(rand.NewPCG(21, 9)),
			func(c *Config) { c.Stall = 8 * time.Second })
		g.apart()
		g.net.wrap = func(local, remote slot.PeerID, s wire.Stream) wire.Stream {
			if local != peerName(2) && remote == peerName(2) {
				return &slowAnswer{Stream: s}
			}
			return s
		}
		g.startAll()
		all, late := g.running, g.running[2]
		g.running = all[:2]
		g.wait()
		for _, r := range g.running {
			r.Retire()
		}
		select {
		case <-late.Complete():
			t.Fatal("the slow one was as fast as the others: this shows nothing")
		default:
		}
		time.Sleep(time.Hour) // virtual
		g.running = all[2:]
		g.wait()
		for i, e := range g.engines[:2] {
			e.mu.Lock()
			if e.mu.spare == nil {
				t.Errorf("peer %d keeps its buffer", i)
			}
			e.mu.Unlock()
		}
		for i, s := range g.sinks {
			if l := s.lost(); len(l) != 0 {
				t.Errorf("peer %d lost %v", i, l)
			}
		}
		g.close()
	})
}
