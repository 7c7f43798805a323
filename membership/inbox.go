package membership

import (
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// These bounds hold for messages that wait to be verified. A full queue loses its oldest message:
// the ledger repeats what was not answered, and the newest message says most.
const (
	inboxPeerMessages = 256
	inboxPeerBytes    = 4 * slot.MaxMessage
	// for all peers together; above it the peer with most bytes loses its oldest message
	inboxBytes = 32 * slot.MaxMessage
	inboxPeers = 4 * slot.MaxMembers // peers with messages waiting
)

// inbox holds received bytes until a verifier takes them: one queue a sender, served in turn, so
// that no sender can starve another. One message of a sender is out at a time: a sender's messages
// keep their order whatever the number of verifiers.
type inbox struct {
	mu struct {
		sync.Mutex
		queues map[slot.PeerID]*inboxQueue // senders with messages waiting or out
		// queues with a message to take, in the order of their turn
		turn   []*inboxQueue
		bytes  int
		closed bool
	}
	wake *sync.Cond
}

type inboxQueue struct {
	from     slot.PeerID
	messages [][]byte
	bytes    int
	turn     bool // it waits for its turn
	out      bool // a verifier has one of its messages
}

func newInbox() *inbox {
	in := &inbox{}
	in.mu.queues = map[slot.PeerID]*inboxQueue{}
	in.wake = sync.NewCond(&in.mu)
	return in
}

// put queues a message of a peer. It never blocks.
func (in *inbox) put(from slot.PeerID, b []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.closed {
		return
	}
	q := in.mu.queues[from]
	if q == nil {
		if len(in.mu.queues) >= inboxPeers {
			return
		}
		q = &inboxQueue{from: from}
		in.mu.queues[from] = q
	}
	q.messages, q.bytes, in.mu.bytes = append(q.messages, b), q.bytes+len(b), in.mu.bytes+len(b)
	if !q.turn && !q.out {
		in.queue(q)
	}
	for len(q.messages) > 1 && (len(q.messages) > inboxPeerMessages || q.bytes > inboxPeerBytes) {
		in.pop(q)
	}
	for in.mu.bytes > inboxBytes {
		in.pop(in.largest())
	}
}

// queue puts a sender at the end of the line.
func (in *inbox) queue(q *inboxQueue) {
	q.turn = true
	in.mu.turn = append(in.mu.turn, q)
	in.wake.Signal()
}

// pop removes a queue's oldest message. An empty queue keeps its turn, and take passes over it.
func (in *inbox) pop(q *inboxQueue) []byte {
	b := q.messages[0]
	q.messages[0] = nil
	q.messages, q.bytes, in.mu.bytes = q.messages[1:], q.bytes-len(b), in.mu.bytes-len(b)
	return b
}

func (in *inbox) largest() (most *inboxQueue) {
	for _, q := range in.mu.queues {
		if most == nil || q.bytes > most.bytes {
			most = q
		}
	}
	return most
}

// next waits for the next message. It returns false once the inbox is closed. The caller returns
// the queue with done.
func (in *inbox) next() (*inboxQueue, []byte, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for {
		for !in.mu.closed && len(in.mu.turn) == 0 {
			in.wake.Wait()
		}
		if in.mu.closed {
			return nil, nil, false
		}
		q := in.mu.turn[0]
		in.mu.turn[0] = nil
		in.mu.turn, q.turn = in.mu.turn[1:], false
		if len(q.messages) == 0 {
			delete(in.mu.queues, q.from)
			continue
		}
		q.out = true
		return q, in.pop(q), true
	}
}

// done ends the turn of a sender.
func (in *inbox) done(q *inboxQueue) {
	in.mu.Lock()
	defer in.mu.Unlock()
	q.out = false
	if len(q.messages) == 0 {
		delete(in.mu.queues, q.from)
		return
	}
	in.queue(q)
}

func (in *inbox) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.closed = true
	in.wake.Broadcast()
}
