package statesync

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// counting counts the streams that a client opens, and how it ends them. A reset one is counted
// once, whatever comes after it.
type counting struct {
	*peers
	opened, closed, reset atomic.Int32
}

type countedStream struct {
	wire.Stream
	n     *counting
	ended atomic.Bool
}

func (n *counting) Open(ctx context.Context, p slot.PeerID) (wire.Stream, error) {
	s, err := n.peers.Open(ctx, p)
	if err != nil {
		return nil, err
	}
	n.opened.Add(1)
	return &countedStream{Stream: s, n: n}, nil
}

func (s *countedStream) Close() error {
	if !s.ended.Swap(true) {
		s.n.closed.Add(1)
	}
	return s.Stream.Close()
}

func (s *countedStream) Reset() error {
	if !s.ended.Swap(true) {
		s.n.reset.Add(1)
	}
	return s.Stream.Reset()
}

// check fails unless all streams were closed.
func (n *counting) check(t *testing.T) {
	t.Helper()
	n.wg.Wait()
	if n.opened.Load() == 0 || n.closed.Load() != n.opened.Load() {
		t.Errorf("of %d streams %d were closed and %d reset", n.opened.Load(), n.closed.Load(), n.reset.Load())
	}
}

// refusing answers each request with a status alone.
func refusing(why status) func(wire.Stream) {
	return func(st wire.Stream) {
		defer st.Close() //nolint:errcheck // nobody is left to tell
		for {
			if _, err := io.ReadFull(st, make([]byte, requestSize)); err != nil {
				return
			}
			if _, err := st.Write(head{Status: why}.append(nil)); err != nil {
				return
			}
		}
	}
}

// A fetch that has all closes its streams, those of workers that wait for a piece among them: their
// connections carry what comes next. With resets each outcome that a peer lacks, and each state,
// would cost all of them.
func TestStreamsOfAFetchEndWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, testShape)
		blobs, _ := putOutcome(t, s, outcomeSizes...)
		want := put(t, s, 9)
		n := &counting{peers: &peers{serve: serves{
			"a": source(t, s, free), "b": source(t, s, slow),
		}}}
		c := NewClient(n, Config{Rand: inOrder()}) // a piece of the slow one would be fetched twice
		if _, _, err := c.FetchOutcome(t.Context(), blobs, testFrame, n.ids()); err != nil {
			t.Fatal(err)
		}
		n.check(t)
		if _, _, err := c.FetchState(t.Context(), newStore(t, testShape), []Target{want}, n.ids, nil); err != nil {
			t.Fatal(err)
		}
		n.check(t)
	})
}

// A donor that says that it does not give what is wanted has answered: its streams are closed, all
// of them. A peer that needs an outcome which is not there yet asks again within moments.
func TestStreamsOfARefusalEndWell(t *testing.T) {
	for name, why := range map[string]status{"not held": statusNotHeld, "busy": statusBusy, "spent": statusSpent} {
		bubble(t, name, func(t *testing.T) {
			blobs, _ := putOutcome(t, newStore(t, testShape), outcomeSizes...)
			n := &counting{peers: &peers{serve: serves{
				"a": refusing(why), "b": refusing(why),
			}}}
			c := NewClient(n, Config{Streams: 3})
			if _, _, err := c.FetchOutcome(t.Context(), blobs, testFrame, n.ids()); !errors.Is(err, ErrNoDonor) {
				t.Errorf("fetched, or %v", err)
			}
			n.check(t)
			if _, err := c.dial.list(t.Context(), "a"); !isRefusal(err) {
				t.Errorf("listed, or %v", err)
			}
			n.check(t)
		})
	}
}

// A fetch that is given up does not wait for an answer that is on its way: its stream is reset.
func TestAFetchThatIsGivenUpResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blobs, _ := putOutcome(t, newStore(t, testShape), outcomeSizes...)
		silent := func(st wire.Stream) { _, _ = io.Copy(io.Discard, st) }
		n := &counting{peers: &peers{serve: serves{"a": silent}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, _, err := NewClient(n, Config{}).FetchOutcome(ctx, blobs, testFrame, n.ids()); err == nil ||
			time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		n.wg.Wait()
		if n.reset.Load() != n.opened.Load() {
			t.Errorf("of %d streams %d were reset", n.opened.Load(), n.reset.Load())
		}
	})
}

// A donor that does not hold what is wanted is not blamed for its other answers, and those are not
// waited for long.
func TestADonorIsLeftAloneAfterARefusal(t *testing.T) {
	silent := func(st wire.Stream) { _, _ = io.Copy(io.Discard, st) }
	for name, other := range map[string]func(wire.Stream){"busy": refusing(statusBusy), "silent": silent} {
		bubble(t, name, func(t *testing.T) {
			blobs, _ := putOutcome(t, newStore(t, testShape), outcomeSizes...)
			var streams atomic.Int32
			n := &peers{serve: serves{"a": func(st wire.Stream) {
				if streams.Add(1) > 1 {
					other(st)
					return
				}
				time.Sleep(time.Second)
				refusing(statusNotHeld)(st)
			}}}
			_, r, err := n.outcome(t, Config{}, blobs...)
			if !errors.Is(err, ErrNoDonor) || len(r.Bad) > 0 || r.Elapsed > time.Second+slowPiece {
				t.Errorf("after %v: %v", r.Elapsed, err)
			}
		})
	}
}
