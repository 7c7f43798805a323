package limits

import (
	"net"
	"os"
	"sync"
	"time"
)

// turns makes one direction of a stream keep to the rate of a bucket.
type turns struct {
	bucket *Bucket       // nil: no bound
	ended  chan struct{} // closed when the stream ends
	once   sync.Once     // of that
	mu     struct {
		sync.Mutex
		deadline time.Time
	}
}

func (t *turns) keepTo(b *Bucket) {
	if b != nil && b.Bounded() {
		t.bucket = b
		t.ended = make(chan struct{})
	}
}

// Until sets the deadline of the stream, after which nothing waits.
func (t *turns) Until(deadline time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.deadline = deadline
}

// End is for the end of the stream: nothing waits any more.
func (t *turns) End() {
	if t.bucket != nil {
		t.once.Do(func() { close(t.ended) })
	}
}

// await waits. Its error says that the stream ended meanwhile, or that the deadline comes before.
func (t *turns) await(wait time.Duration, now time.Time) error {
	if wait <= 0 {
		return nil
	}
	t.mu.Lock()
	deadline := t.mu.deadline
	t.mu.Unlock()
	late := !deadline.IsZero() && now.Add(wait).After(deadline)
	if late {
		wait = deadline.Sub(now)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ended:
		return net.ErrClosed
	}
	if late {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// WriteTurns are the turns of the writes of one stream.
type WriteTurns struct{ turns }

// NewWriteTurns makes turns that keep to a bucket; nil: no bound.
func NewWriteTurns(b *Bucket) *WriteTurns {
	t := &WriteTurns{}
	t.keepTo(b)
	return t
}

// Take waits until some of n bytes may be written, and says how many.
func (t *WriteTurns) Take(n int) (int, error) {
	if t.bucket == nil {
		return n, nil
	}
	n = min(n, t.bucket.share())
	now := time.Now()
	if err := t.await(t.bucket.Turn(n, now), now); err != nil {
		t.bucket.GiveBack(n)
		return 0, err
	}
	return n, nil
}

// Force is Take for bytes that cannot wait.
func (t *WriteTurns) Force(n int) {
	if t.bucket != nil {
		t.bucket.Passed(n)
	}
}

// ReadTurns are the turns of the reads of one stream. How much comes shows when it is here: so it
// is counted then, and the next read waits for the turn of the stream. What is not read fills the
// buffers before it, and then TCP or QUIC holds the sender back.
type ReadTurns struct {
	turns
	next time.Time // when the stream may read again; owned by the reading goroutine
}

// NewReadTurns makes turns that keep to a bucket; nil: no bound.
func NewReadTurns(b *Bucket) *ReadTurns {
	t := &ReadTurns{}
	t.keepTo(b)
	return t
}

// Take waits for the stream's turn, and says how many of n bytes may be read.
func (t *ReadTurns) Take(n int) (int, error) {
	if t.bucket == nil {
		return n, nil
	}
	now := time.Now()
	return min(n, t.bucket.share()), t.await(t.next.Sub(now), now)
}

// Came counts bytes that were read.
func (t *ReadTurns) Came(n int) {
	if t.bucket != nil && n > 0 {
		now := time.Now()
		t.next = now.Add(t.bucket.Turn(n, now))
	}
}
