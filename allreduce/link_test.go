package allreduce

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// collector is a stream that takes all that is written and remembers the sizes of the Writes.
type collector struct {
	wire.Stream
	all    []byte
	writes []int
}

func (c *collector) Write(b []byte) (int, error) {
	c.all = append(c.all, b...)
	c.writes = append(c.writes, len(b))
	return len(b), nil
}

func (c *collector) SetWriteDeadline(time.Time) error { return nil }

func newLink(together int) (*link, *collector) {
	c := &collector{}
	return &link{s: c, stall: time.Minute, sent: new(atomic.Uint64), together: together}, c
}

// What is put together is the same bytes in the same order as what is not.
func TestPutTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	apart, want := newLink(0)
	joined, got := newLink(outBytes)
	for i := range 200 {
		payload := bytes.Repeat([]byte{byte(i)}, r.IntN([]int{100, outBytes, 5 * outBytes}[i%3]))
		for _, l := range []*link{apart, joined} {
			if err := l.writeFrame(kindRaw, i, payload); err != nil {
				t.Fatal(err)
			}
			if i%17 == 0 {
				if err := l.writeAlive(uint64(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if len(joined.out) > outBytes {
			t.Fatalf("%d bytes wait", len(joined.out))
		}
	}
	if err := joined.flush(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.all, want.all) || joined.sent.Load() != uint64(len(want.all)) {
		t.Error("other bytes are written together than apart")
	}
}

// Small frames share a Write, and a large frame's header never travels alone.
func TestHeadersDoNotTravelAlone(t *testing.T) {
	l, c := newLink(outBytes)
	for i := range 8 {
		if err := l.writeFrame(kindRaw, i, make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.flush(); err != nil || !slices.Equal(c.writes, []int{8 * (headerSize + 4096)}) {
		t.Errorf("8 small frames are written in pieces of %v: %v", c.writes, err)
	}
	l, c = newLink(outBytes)
	if err := l.writeFrame(kindRaw, 0, make([]byte, 256<<10)); err != nil || c.writes[0] != outBytes ||
		len(c.writes) > 3 || len(l.out) != 0 {
		t.Errorf("a large frame is written in pieces of %v, %d bytes wait: %v", c.writes, len(l.out), err)
	}
}

// lastWords is a stream that knows what was done last to its writing side.
type lastWords struct {
	wire.Stream
	renewed atomic.Bool // it was the deadline
	ends    *atomic.Int32
	stale   *atomic.Int32 // ends that had only what was left of an earlier deadline
}

func (s *lastWords) Write(b []byte) (int, error) {
	s.renewed.Store(false)
	return s.Stream.Write(b)
}

func (s *lastWords) SetWriteDeadline(t time.Time) error {
	s.renewed.Store(time.Until(t) > time.Minute) // newGroup's Stall
	return s.Stream.SetWriteDeadline(t)
}

func (s *lastWords) CloseWrite() error {
	if s.ends.Add(1); !s.renewed.Load() {
		s.stale.Add(1)
	}
	return s.Stream.CloseWrite()
}

// TestTheEndHasItsTime: what is left may take as long to leave as any write, in a rotation and in a
// ring.
func TestTheEndHasItsTime(t *testing.T) {
	for _, ring := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(6, 6))
		g := newGroup(t, testParams(2000, 100), 3, rng)
		if ring {
			g.goRound(rng)
		}
		var ends, stale atomic.Int32
		g.net.wrap = func(_, _ slot.PeerID, s wire.Stream) wire.Stream {
			return &lastWords{Stream: s, ends: &ends, stale: &stale}
		}
		g.startAll()
		g.wait()
		g.check()
		g.close()
		if ends.Load() < 3 || stale.Load() > 0 {
			t.Errorf("ring %v: %d of %d ends had no deadline of their own", ring, stale.Load(), ends.Load())
		}
	}
}
