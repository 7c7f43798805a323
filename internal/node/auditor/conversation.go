package auditor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// conversation asks a contributor for its parts of all early segments of a slot, on one stream:
// questions go out as segments are signed, without waiting for the answers to earlier ones.
type conversation struct {
	auditor  *Auditor
	peer     slot.PeerID
	fragment uint32        // of the slot
	more     chan struct{} // has a token when there is something to ask

	mu     sync.Mutex // never held while bytes are on their way
	queue  []question // not asked yet
	due    []question // asked on stream, not answered yet
	stream wire.Stream
	failed error // why nothing is asked any more in this slot
}

// question is an opening that is asked for, and what takes it in.
type question struct {
	ask
	answer answer
}

// answer takes in an opening. It is nil if nothing is shown; err says why, if anything does.
type answer func(q ask, o *audit.Opening, err error)

// with returns the conversation with a contributor, which begins with the first question.
func (o *openSlot) with(a *Auditor, p slot.PeerID, fragment uint32) *conversation {
	a.early.mu.Lock()
	defer a.early.mu.Unlock()
	c := o.conversations[p]
	if c == nil {
		c = &conversation{auditor: a, peer: p, fragment: fragment, more: make(chan struct{}, 1)}
		o.conversations[p] = c
		a.early.wg.Go(func() { c.run(o.ctx) })
	}
	return c
}

// ask queues questions. Each is answered, sooner or later.
func (c *conversation) ask(list []ask, take answer) {
	c.mu.Lock()
	failed := c.failed
	if failed == nil {
		for _, q := range list {
			c.queue = append(c.queue, question{q, take})
		}
	}
	c.mu.Unlock()
	if failed != nil {
		for _, q := range list {
			take(q, nil, failed)
		}
		return
	}
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// run asks what is queued until the slot is decided, or the contributor does not answer.
func (c *conversation) run(ctx context.Context) {
	for {
		select {
		case <-c.more:
		case <-ctx.Done():
			c.fail(nil, ctx.Err())
			return
		}
		s, list, err := c.opened(ctx)
		if err != nil {
			c.fail(nil, err)
			return
		}
		_ = s.SetWriteDeadline(time.Now().Add(c.auditor.cfg.Timeout))
		for _, q := range list {
			if wire.WriteMessage(s, q.request().Append(nil)) != nil {
				_ = s.Reset() // the reader notices
				break
			}
		}
	}
}

// opened moves the queue to what is due, on a stream that is opened if there is none.
func (c *conversation) opened(ctx context.Context) (wire.Stream, []question, error) {
	if s, list := c.move(nil); s != nil {
		return s, list, nil
	}
	if !c.auditor.cfg.Connected(c.peer) {
		return nil, nil, errors.New("it is out of reach")
	}
	s, err := c.auditor.open(ctx, c.peer)
	if err != nil {
		return nil, nil, err
	}
	_, list := c.move(s)
	c.auditor.early.wg.Go(func() { c.read(ctx, s) })
	return s, list, nil
}

// move makes what is queued due on the stream, or on a new one. Without one it does nothing.
func (c *conversation) move(fresh wire.Stream) (s wire.Stream, list []question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == nil {
		c.stream = fresh
	}
	if c.stream == nil {
		return nil, nil
	}
	list, c.queue = c.queue, nil
	c.due = append(c.due, list...)
	asks := make([]ask, len(c.due))
	for i, q := range c.due {
		asks[i] = q.ask
	}
	_ = c.stream.SetReadDeadline(time.Now().Add(c.auditor.patience(asks)))
	return c.stream, list
}

// read hands out the answers, which come in the order of the questions, until the stream ends.
func (c *conversation) read(ctx context.Context, s wire.Stream) {
	defer s.Reset() //nolint:errcheck // all answers were read, or do not come
	defer context.AfterFunc(ctx, func() { _ = s.Reset() })()
	for {
		b, err := wire.ReadMessage(s, audit.MaxOpening(c.auditor.cfg.Params, c.fragment, true))
		q, due := c.next(s)
		if !due { // it says more than it was asked, or was asked nothing for some time
			return
		}
		var o *audit.Opening
		if err == nil {
			o, err = openingOf(b, q.ask)
		}
		q.answer(q.ask, o, err)
		if err != nil {
			c.fail(s, err)
			return
		}
	}
}

// next takes the question that was asked first. Without one the stream is given up: another one is
// opened for the next question.
func (c *conversation) next(s wire.Stream) (q question, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.due) == 0 {
		if c.stream == s {
			c.stream = nil
		}
		return question{}, false
	}
	q, c.due = c.due[0], c.due[1:]
	return q, true
}

// fail ends the conversation: what was not answered is asked again when the outcome is audited.
func (c *conversation) fail(s wire.Stream, err error) {
	c.mu.Lock()
	left := c.queue
	if s == c.stream {
		left = append(c.due, left...)
		c.due, c.stream = nil, nil
	}
	c.queue = nil
	if c.failed == nil {
		c.failed = err
	}
	c.mu.Unlock()
	for _, q := range left {
		q.answer(q.ask, nil, err)
	}
}
