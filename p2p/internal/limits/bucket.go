package limits

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// burst is how long a direction may make up for what it has not used.
	burst = 50 * time.Millisecond
	// maxDebt is how long bytes that do not wait may hold up those that do: a hello of some MiB is
	// minutes of a slow upload, after which every other peer would have taken the streams for dead.
	// Beyond that the rate is exceeded.
	maxDebt = time.Second
)

// Bucket is a token bucket over all streams that carry much data, one way: exchange, state and
// probes. Other bytes that are sent, or come, take tokens too, and never wait for them. Streams
// that wait are served in turn.
type Bucket struct {
	rate float64 // bytes a second; 0: no bound
	mu   struct {
		sync.Mutex
		free time.Time // when all that was granted will have been sent
	}
}

// NewBucket makes a bucket for some bytes a second. 0: no bound.
func NewBucket(rate int64) *Bucket { return &Bucket{rate: float64(rate)} }

// Bounded says whether there is a bound. A nil Bucket has none.
func (b *Bucket) Bounded() bool { return b != nil && b.rate > 0 }

// Turn takes n bytes' time and returns how long to wait before they may be sent.
func (b *Bucket) Turn(n int, now time.Time) time.Duration {
	if !b.Bounded() {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.catchUp(now)
	wait := b.mu.free.Sub(now)
	b.mu.free = b.mu.free.Add(b.lasts(n))
	return max(wait, 0)
}

// GiveBack returns what was taken and not used.
func (b *Bucket) GiveBack(n int) {
	if !b.Bounded() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.free = b.mu.free.Add(-b.lasts(n))
}

// Passed notes bytes that do not wait. Together they put off the turns of others by maxDebt at
// most.
func (b *Bucket) Passed(n int) {
	if !b.Bounded() {
		return
	}
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.catchUp(now)
	if latest := now.Add(maxDebt); b.mu.free.Before(latest) {
		if b.mu.free = b.mu.free.Add(b.lasts(n)); b.mu.free.After(latest) {
			b.mu.free = latest
		}
	}
}

// maxAhead is how long bytes may have to wait for TurnSoon. Turns that are promised far ahead would
// keep everybody waiting, also when the peers they were promised to have long gone.
const maxAhead = 10 * time.Second

// ErrBusy says that more is on its way than the rate allows.
var ErrBusy = errors.New("more is on its way than the rate allows")

// TurnSoon is Turn unless the bucket is Busy.
func (b *Bucket) TurnSoon(n int, now time.Time) (time.Duration, error) {
	if b.Busy(now) {
		return 0, ErrBusy
	}
	return b.Turn(n, now), nil
}

// Busy says whether too much waits for more to be let in.
func (b *Bucket) Busy(now time.Time) bool { return b.Ahead(now) > maxAhead }

// Ahead is how much time what is granted and has not been sent will take.
func (b *Bucket) Ahead(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, b.mu.free.Sub(now))
}

func (b *Bucket) lasts(n int) time.Duration {
	return time.Duration(float64(n) / b.rate * float64(time.Second))
}

// catchUp forgets what was not used, but for a burst. mu is held.
func (b *Bucket) catchUp(now time.Time) {
	if earliest := now.Add(-burst); b.mu.free.Before(earliest) {
		b.mu.free = earliest
	}
}

// share is how much is taken at a time: little enough for streams to take turns.
func (b *Bucket) share() int {
	return min(max(int(b.rate*burst.Seconds())/4, 1<<10), 64<<10)
}

// turns makes one direction of a stream keep to the rate of a bucket.
type turns struct {
	bucket *Bucket
	ended  chan struct{} // closed when the stream ends
	once   sync.Once     // of that
	mu     struct {
		sync.Mutex
		deadline time.Time
	}
}

// Until sets the deadline of the stream, after which nothing waits.
func (t *turns) Until(deadline time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.deadline = deadline
}

// End is for the end of the stream: nothing waits any more.
func (t *turns) End() { t.once.Do(func() { close(t.ended) }) }

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
	return &WriteTurns{turns{bucket: b, ended: make(chan struct{})}}
}

// Take waits until some of n bytes may be written, and says how many.
func (t *WriteTurns) Take(n int) (int, error) {
	if !t.bucket.Bounded() {
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
func (t *WriteTurns) Force(n int) { t.bucket.Passed(n) }

// ReadTurns are the turns of the reads of one stream. How much comes shows when it is here: so it
// is counted then, and the next read waits for the turn of the stream. What is not read fills the
// buffers before it, and then TCP or QUIC holds the sender back.
type ReadTurns struct {
	turns
	next time.Time // when the stream may read again; owned by the reading goroutine
}

// NewReadTurns makes turns that keep to a bucket; nil: no bound.
func NewReadTurns(b *Bucket) *ReadTurns {
	return &ReadTurns{turns: turns{bucket: b, ended: make(chan struct{})}}
}

// Take waits for the stream's turn, and says how many of n bytes may be read.
func (t *ReadTurns) Take(n int) (int, error) {
	if !t.bucket.Bounded() {
		return n, nil
	}
	now := time.Now()
	return min(n, t.bucket.share()), t.await(t.next.Sub(now), now)
}

// Came counts bytes that were read.
func (t *ReadTurns) Came(n int) {
	if n > 0 && t.bucket.Bounded() {
		now := time.Now()
		t.next = now.Add(t.bucket.Turn(n, now))
	}
}
