package auditor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// conversation asks a contributor for its parts of all early segments of a slot: questions go out
// as segments are signed, without waiting for the answers to earlier ones. A stream ends when all
// that was asked on it is answered.
//
// While the slot is reduced an answer may take any time: several seconds of contributions and
// outcomes may be on a slow link in front of it. Patience begins when an audit waits for it.
type conversation struct {
	auditor  *Auditor
	peer     slot.PeerID
	fragment uint32        // of the slot
	more     chan struct{} // has a token when there is something to ask

	mu     sync.Mutex // never held while bytes are on their way
	queue  []question // not asked yet
	due    []question // asked on stream, not answered yet
	stream wire.Stream
	hurry  bool  // an audit waits
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
		c = &conversation{auditor: a, peer: p, fragment: fragment, hurry: o.hurry, more: make(chan struct{}, 1)}
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
		if s == nil { // it was asked before, or nothing is asked any more
			continue
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

// opened moves the queue to what is due, on a stream that is opened if there is none. Where nothing
// is queued it returns none.
func (c *conversation) opened(ctx context.Context) (wire.Stream, []question, error) {
	if s, list, waits := c.move(nil); !waits {
		return s, list, nil
	}
	if !c.auditor.cfg.Connected(c.peer) {
		return nil, nil, errors.New("it is out of reach")
	}
	s, err := c.auditor.open(ctx, c.peer)
	if err != nil { // however long that took, the contributor was not asked
		return nil, nil, fmt.Errorf("no stream can be opened: %v", err)
	}
	used, list, _ := c.move(s)
	if used != s { // what was queued was answered with an error meanwhile
		_ = s.Close() // not reset: its connection carries the next stream
		return used, list, nil
	}
	c.auditor.early.wg.Go(func() { c.read(ctx, s) })
	return s, list, nil
}

// move makes what is queued due on the stream, or on a new one. waits: there is something to ask,
// and no stream. Only run gives a conversation a stream, so there is none until it does.
func (c *conversation) move(fresh wire.Stream) (s wire.Stream, list []question, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil, nil, false
	}
	if c.stream == nil {
		c.stream = fresh
	}
	if c.stream == nil {
		return nil, nil, true
	}
	list, c.queue = c.queue, nil
	c.due = append(c.due, list...)
	if c.hurry {
		c.limit()
	}
	return c.stream, list, false
}

// hurryUp gives the answers that are due the time that answers have from now on: an audit waits for
// them.
func (c *conversation) hurryUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hurry {
		c.hurry = true
		c.limit()
	}
}

// limit is the time that the answers which are due have from now on. mu is held.
func (c *conversation) limit() {
	if c.stream == nil {
		return
	}
	asks := make([]ask, len(c.due))
	for i, q := range c.due {
		asks[i] = q.ask
	}
	_ = c.stream.SetReadDeadline(time.Now().Add(c.auditor.patience(asks)))
}

// read hands out the answers, which come in the order of the questions, until there is one for
// each.
func (c *conversation) read(ctx context.Context, s wire.Stream) {
	defer context.AfterFunc(ctx, func() { _ = s.Reset() })()
	watch := c.auditor.watch()
	defer watch.end()
	for more := true; more; {
		b, err := wire.ReadMessage(s, audit.MaxOpening(c.auditor.cfg.Params, c.fragment, true))
		var q question
		q, more = c.next()
		var o *audit.Opening
		if err == nil {
			o, err = openingOf(b, q.ask)
		} else if watch.end() {
			err = errStoodStill // it may have had no time
		}
		q.answer(q.ask, o, err)
		if err != nil {
			_ = s.Reset()
			c.fail(s, err)
			return
		}
	}
	_ = s.Close() // not reset: its connection carries the next stream
}

// next takes the question that was asked first. Where it was the last one on the stream, the next
// question goes on another.
func (c *conversation) next() (q question, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q, c.due = c.due[0], c.due[1:]
	if len(c.due) == 0 {
		c.stream = nil
	}
	return q, len(c.due) > 0
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
