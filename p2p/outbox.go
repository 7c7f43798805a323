package p2p

import (
	"context"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// outbox is one peer's queue (under Messenger.mu) and stream (its goroutine's own).
type outbox struct {
	m     *Messenger
	to    slot.PeerID
	wake  peers.Signal
	queue [][]byte
	bytes int

	s       wire.Stream
	unwatch func() bool // the stream's deadline does not depend on the Messenger any more
}

func (o *outbox) run() {
	defer o.hangUp()
	idle := time.NewTimer(messengerIdle)
	defer idle.Stop()
	for {
		select {
		case <-o.m.ctx.Done():
			if o.s != nil {
				o.drain()
			}
			return
		case <-o.wake:
			if o.drain() {
				idle.Reset(messengerIdle)
			} else {
				idle.Reset(messengerGone)
			}
		case <-idle.C:
			if o.retire() {
				return
			}
			idle.Reset(messengerIdle) // what came just now wakes it
		}
	}
}

// drain sends all that waits. When the peer cannot be reached, everything queued is dropped at
// once: the caller has another way.
func (o *outbox) drain() (reached bool) {
	for msg, ok := o.next(); ok; msg, ok = o.next() {
		err := o.write(msg)
		if err == nil {
			continue
		}
		for ; ok; msg, ok = o.next() {
			o.m.drop(o.to, msg, err)
		}
		return false
	}
	return true
}

func (o *outbox) next() ([]byte, bool) {
	o.m.mu.Lock()
	defer o.m.mu.Unlock()
	if len(o.queue) == 0 {
		return nil, false
	}
	msg := o.queue[0]
	o.queue[0] = nil
	o.queue = o.queue[1:]
	o.bytes -= len(msg)
	return msg, true
}

// retire says whether the goroutine may end because nothing waits.
func (o *outbox) retire() bool {
	o.m.mu.Lock()
	defer o.m.mu.Unlock()
	if len(o.queue) > 0 {
		return false
	}
	delete(o.m.mu.out, o.to)
	return true
}

// write sends msg, once more over a new stream if the old one had gone stale.
func (o *outbox) write(msg []byte) error {
	if o.s != nil {
		if err := o.writeOnce(msg); err == nil {
			return nil
		}
	}
	if err := o.open(); err != nil {
		return err
	}
	return o.writeOnce(msg)
}

func (o *outbox) writeOnce(msg []byte) error {
	var err error
	if o.m.ctx.Err() == nil {
		err = o.s.SetWriteDeadline(time.Now().Add(messengerWrite))
	}
	if err == nil {
		err = wire.WriteMessage(o.s, msg)
	}
	if err != nil {
		o.abort()
		return o.m.n.env.Tasks.Err(err)
	}
	return nil
}

func (o *outbox) open() error {
	ctx, cancel := context.WithTimeout(o.m.ctx, messengerOpen)
	defer cancel()
	s, err := o.m.n.Open(ctx, o.to, o.m.proto)
	if err != nil {
		return err
	}
	o.s = s
	o.unwatch = context.AfterFunc(o.m.ctx, func() { _ = s.SetWriteDeadline(time.Now().Add(messengerLast)) })
	return nil
}

func (o *outbox) abort() {
	o.unwatch()
	_ = o.s.Reset()
	o.s = nil
}

func (o *outbox) hangUp() {
	if o.s != nil {
		o.unwatch()
		_ = o.s.Close()
	}
}
