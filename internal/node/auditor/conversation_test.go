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
	const askers, each = 8, 4_000
	h, contributor := newHouse(t), &hasty{}
	e := h.auditor("e")
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

// failing ends a conversation while a stream is opened for it.
type failing struct {
	Streams
	c *conversation
}

func (f *failing) Open(ctx context.Context, p slot.PeerID) (wire.Stream, error) {
	f.c.fail(nil, errOtherRange)
	return f.Streams.Open(ctx, p)
}

// Streams on which all was answered are not reset: the transport uses their connections again. Nor
// is one of what a leader passes on, or one on which nothing is asked any more once it is open; one
// on which no answer came is.
func TestAnsweredStreamsEndWell(t *testing.T) {
	elects(t, false, func(h *house, e *elector) {
		streams := &counting{Streams: e}
		e.cfg.Streams = streams
		e.sample()
		e.audits(0, 0)
		e.Decided(h.offer.Slot)
		e.audits(0, 0) // it asks without early samples
		e.Close()
		if n := streams.resets.Load(); n > 0 || e.streams.Load() == 0 {
			t.Errorf("%d of %d streams were reset", n, e.streams.Load())
		}
	})
	elects(t, false, func(h *house, _ *elector) {
		streams := &counting{Streams: h}
		h.leader.cfg.Streams = streams
		if !h.passes("e1", h.request()) || streams.resets.Load() > 0 {
			t.Errorf("it is not passed on, or %d streams were reset", streams.resets.Load())
		}
		h.change = func(s wire.Stream) wire.Stream { _ = s.Reset(); return nil }
		if h.passes("e2", h.request()) || streams.resets.Load() != 1 {
			t.Errorf("without an answer %d streams were reset", streams.resets.Load())
		}
	})
	elects(t, false, func(h *house, e *elector) {
		streams := &counting{Streams: h}
		c := &conversation{auditor: e.Auditor, peer: "c", more: make(chan struct{}, 1)}
		e.cfg.Streams = &failing{Streams: streams, c: c}
		ctx, end := context.WithCancel(h.t.Context())
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
