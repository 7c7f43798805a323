package p2p

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// Bounds on what waits for one peer, and times of its stream.
const (
	maxQueued      = 1024      // messages
	maxQueuedBytes = 8 << 20   // bytes, though one message always fits
	messageMemory  = 256 << 20 // bytes of large messages in flight
	maxOutboxes    = 4096      // peers for which something waits or a stream is open

	messengerOpen  = 5 * time.Second
	messengerWrite = 10 * time.Second
	messengerIdle  = 2 * time.Minute  // then the sender closes the stream
	messengerBody  = 30 * time.Second // for a message that has begun to come
	// a peer that cannot be reached is forgotten after so long without messages for it
	messengerGone = time.Second
	// that a new stream waits for its predecessor's last messages
	messengerTurn = 5 * time.Second
	messengerLast = 200 * time.Millisecond // for what is queued when a Messenger closes
)

// ErrQueueFull is reported for a message to a peer that takes messages slower than they come.
var ErrQueueFull = errors.New("too many messages wait for this peer")

// Messenger sends small one-way messages over streams that stay open, one to each peer. Messages of
// one pair arrive in the order of their Send. A message is lost when the connection breaks under
// it, and may come twice when it breaks late.
//
//	Send -> queue of the peer -> its goroutine: open, write -> stream -> the peer's reader -> deliver
//
// Peers are served in parallel, the messages of one in sequence, on both sides.
type Messenger struct {
	n       *Network
	proto   string
	limit   int
	deliver func(from slot.PeerID, msg []byte)
	onDrop  func(to slot.PeerID, msg []byte, err error)
	memory  *limits.Budget
	ctx     context.Context // ends with Close, and with the network
	cancel  context.CancelFunc
	wg      sync.WaitGroup // its goroutines, and streams that are read
	mu      struct {
		sync.Mutex
		closed bool
		out    map[slot.PeerID]*outbox
		in     map[slot.PeerID]*inbox
	}
}

// NewMessenger serves a protocol with messages of at most limit bytes. deliver gets those that
// arrive: one call at a time for each sender, several senders at once; while it blocks, that sender
// waits. onDrop, which may be nil, gets each message that could not be sent, so that it can go
// another way: it is called by Send, or by a goroutine of the peer's, and must not block for long.
// Both must end when the Messenger closes.
func (n *Network) NewMessenger(proto string, limit int,
	deliver func(from slot.PeerID, msg []byte), onDrop func(to slot.PeerID, msg []byte, err error),
) *Messenger {
	m := &Messenger{
		n: n, proto: proto, limit: limit, deliver: deliver, onDrop: onDrop,
		memory: limits.NewBudget(messageMemory),
	}
	m.ctx, m.cancel = context.WithCancel(n.env.Tasks.Context())
	m.mu.out = make(map[slot.PeerID]*outbox)
	m.mu.in = make(map[slot.PeerID]*inbox)
	n.Handle(proto, m.receive)
	return m
}

// Close stops to send and to receive. What is queued has a moment to go out, and is dropped in
// silence then. The network, which may serve another Messenger of the same protocol afterwards,
// stays open. Closing the network closes its messengers, too.
func (m *Messenger) Close() {
	m.mu.Lock()
	again := m.mu.closed
	m.mu.closed = true
	for _, b := range m.mu.in {
		_ = b.s.Reset()
	}
	m.mu.Unlock()
	if !again {
		m.n.unhandle(protocol.ID(m.proto))
	}
	m.cancel()
	m.wg.Wait()
}

// Send queues msg, which belongs to the Messenger from now on, and returns at once.
func (m *Messenger) Send(to slot.PeerID, msg []byte) {
	if len(msg) > m.limit {
		m.drop(to, msg, fmt.Errorf("message of %d bytes: %w (%d)", len(msg), wire.ErrTooLarge, m.limit))
		return
	}
	m.mu.Lock()
	err := m.enqueue(to, msg)
	m.mu.Unlock()
	if err != nil {
		m.drop(to, msg, err)
	}
}

// enqueue starts the peer's goroutine if it has none. m.mu is held.
func (m *Messenger) enqueue(to slot.PeerID, msg []byte) error {
	if m.mu.closed {
		return nil
	}
	o := m.mu.out[to]
	if o == nil && len(m.mu.out) >= maxOutboxes {
		return ErrQueueFull // most of them for names that strangers made up, and soon forgotten
	}
	if o == nil {
		o = &outbox{m: m, to: to, wake: peers.NewSignal()}
		m.wg.Add(1)
		if !m.n.env.Tasks.Go(func() { defer m.wg.Done(); o.run() }) {
			m.wg.Done()
			return m.n.env.Tasks.Err(nil)
		}
		m.mu.out[to] = o
	}
	if len(o.queue) >= maxQueued || len(o.queue) > 0 && o.bytes+len(msg) > maxQueuedBytes {
		return ErrQueueFull
	}
	o.queue = append(o.queue, msg)
	o.bytes += len(msg)
	o.wake.Raise()
	return nil
}

func (m *Messenger) drop(to slot.PeerID, msg []byte, err error) {
	m.n.env.Log.Debug("message dropped", "protocol", m.proto, "to", to, "err", err)
	if m.onDrop != nil && m.ctx.Err() == nil {
		m.onDrop(to, msg, err)
	}
}

// inbox is the stream on which one peer's messages come now.
type inbox struct {
	s    wire.Stream
	done chan struct{}
}

// receive reads one stream. A peer's newer stream waits until the older one has been read to its
// end, which keeps the order.
func (m *Messenger) receive(from slot.PeerID, s wire.Stream) {
	me := &inbox{s: s, done: make(chan struct{})}
	defer close(me.done)
	m.mu.Lock()
	if m.mu.closed {
		m.mu.Unlock()
		_ = s.Reset()
		return
	}
	m.wg.Add(1)
	defer m.wg.Done()
	before := m.mu.in[from]
	m.mu.in[from] = me
	m.mu.Unlock()
	defer m.forget(from, me)
	if before != nil {
		before.finish(m.ctx)
	}
	for {
		if err := m.receiveOne(from, s); err != nil {
			m.n.env.Log.Debug("message stream ended", "protocol", m.proto, "from", from, "err", err)
			break
		}
	}
	_ = s.Reset()
}

// receiveOne waits for a message, and not long for the rest of one that has begun.
func (m *Messenger) receiveOne(from slot.PeerID, s wire.Stream) error {
	if err := s.SetReadDeadline(time.Now().Add(messengerIdle + time.Minute)); err != nil {
		return err
	}
	n, err := wire.ReadLength(s, m.limit)
	if err != nil {
		return err
	}
	if err := s.SetReadDeadline(time.Now().Add(messengerBody)); err != nil {
		return err
	}
	msg, giveBack, err := limits.ReadBody(s, n, m.memory)
	if err != nil {
		return err
	}
	defer giveBack()
	m.deliver(from, msg)
	return nil
}

func (m *Messenger) forget(from slot.PeerID, me *inbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.in[from] == me {
		delete(m.mu.in, from)
	}
}

// finish waits until b's stream is read, and cuts it off when that takes too long, or ctx ends.
func (b *inbox) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, messengerTurn)
	defer cancel()
	select {
	case <-b.done:
		return
	case <-ctx.Done():
		_ = b.s.Reset()
	}
	<-b.done
}
