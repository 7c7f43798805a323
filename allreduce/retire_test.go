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
