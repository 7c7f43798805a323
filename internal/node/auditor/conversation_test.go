package auditor

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/internal/wire/wiretest"
)

// hasty is a contributor that shows nothing, and says so at once.
type hasty struct{ served sync.WaitGroup }

func (h *hasty) Open(context.Context, slot.PeerID) (wire.Stream, error) {
	here, there := wiretest.Pipe(1 << 16)
	h.served.Go(func() {
		defer there.Close()
		for {
			if _, err := wire.ReadMessage(there, maxRequest); err != nil {
				return
			}
			if wire.WriteMessage(there, nil) != nil {
				return
			}
		}
	})
	return here, nil
}

// Each question is answered once, and each answer is that of its question, whatever is asked while
// a stream ends because all was answered.
func TestQuestionsWhileAStreamEnds(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	const askers, each = 8, 20_000
	h, contributor := newHouse(t), &hasty{}
	e := h.auditor(t, "e")
	e.cfg.Streams = contributor
	c := &conversation{auditor: e, peer: "c", more: make(chan struct{}, 1)}
	ctx, end := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); c.run(ctx) }()
	seg := &segment{Segment: &audit.Segment{}}
	seg.Offers = []slot.Offer{h.offer}
	var answered [askers * each]atomic.Int32
	var asking sync.WaitGroup
	for n := range askers {
		asking.Go(func() {
			for i := range each {
				done := make(chan struct{})
				at := uint64(n*each + i)
				q := ask{seg: seg, r: slot.Range{Begin: at}}
				c.ask([]ask{q}, func(q ask, o *audit.Opening, err error) {
					if answered[q.r.Begin].Add(1); o != nil || err != nil {
						t.Errorf("question %d: %v, %v", q.r.Begin, o, err)
					}
					close(done)
				})
				if i%50 == 0 { // so a stream ends now and then
					<-done
				}
			}
		})
	}
	asking.Wait()
	for i := range answered {
		for answered[i].Load() == 0 {
			runtime.Gosched()
		}
	}
	end()
	<-over
	e.early.wg.Wait()
	contributor.served.Wait()
	for i := range answered {
		if n := answered[i].Load(); n != 1 {
			t.Errorf("question %d has %d answers", i, n)
		}
	}
}

// counted counts the streams that are reset.
type counted struct {
	wire.Stream
	resets *atomic.Int32
}

func (s counted) Reset() error {
	s.resets.Add(1)
	return s.Stream.Reset()
}

type counting struct {
	Streams
	resets atomic.Int32
}

func (c *counting) Open(ctx context.Context, p slot.PeerID) (wire.Stream, error) {
	s, err := c.Streams.Open(ctx, p)
	return counted{s, &c.resets}, err
}

// Streams on which all was answered are not reset: the transport uses their connections again.
func TestAnsweredStreamsEndWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		e := h.elector(t, h.reduce(false))
		streams := &counting{Streams: e}
		e.cfg.Streams = streams
		e.sample(t)
		synctest.Wait()
		e.audit(t)
		e.Decided(h.offer.Slot)
		if got := e.audit(t); len(got.Unshown) > 0 { // it asks without early samples
			t.Errorf("%v is missing", got.Unshown)
		}
		e.Close()
		if n := streams.resets.Load(); n > 0 || e.streams.Load() == 0 {
			t.Errorf("%d of %d streams were reset", n, e.streams.Load())
		}
	})
}

// failing ends a conversation while a stream is opened for it.
type failing struct {
	Streams
	c *conversation
}

func (f *failing) Open(ctx context.Context, p slot.PeerID) (wire.Stream, error) {
	f.c.fail(nil, errOtherRange)
	return f.Streams.Open(ctx, p)
}

// A stream on which nothing is asked any more once it is open ends well, too.
func TestAStreamThatIsNotNeededEndsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		e, streams := h.auditor(t, "e"), &counting{Streams: h}
		c := &conversation{auditor: e, peer: "c", more: make(chan struct{}, 1)}
		e.cfg.Streams = &failing{Streams: streams, c: c}
		ctx, end := context.WithCancel(t.Context())
		go c.run(ctx)
		seg := &segment{Segment: &audit.Segment{}}
		seg.Offers = []slot.Offer{h.offer}
		answered := make(chan error, 1)
		c.ask([]ask{{seg: seg}}, func(_ ask, _ *audit.Opening, err error) { answered <- err })
		if err := <-answered; err == nil {
			t.Error("the question was asked: nothing is tested")
		}
		synctest.Wait()
		if n := streams.resets.Load(); n > 0 {
			t.Errorf("%d streams were reset", n)
		}
		end()
	})
}
