package p2p

import (
	"net"
	"os"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/protocol"
)

const (
	// uploadBurst is how long the upload may make up for what it has not used.
	uploadBurst = 50 * time.Millisecond
	// uploadDebt is how long what does not wait may hold up what does: a hello of some MiB is minutes of a slow upload, after which every
	// other peer would have taken the streams for dead. Beyond that the rate is exceeded.
	uploadDebt = time.Second
)

// bucket is a token bucket over all streams that carry much data, one way: exchange, state and probes. What else is sent, or comes, takes tokens
// too, and never waits for them. Who waits is served in turn.
type bucket struct {
	rate float64 // bytes a second; 0: no bound
	mu   struct {
		sync.Mutex
		free time.Time // when all that was granted will have been sent
	}
}

// reserve takes n bytes' time and returns how long to wait before they may be sent.
func (u *bucket) reserve(n int, now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.catchUp(now)
	wait := u.mu.free.Sub(now)
	u.mu.free = u.mu.free.Add(u.lasts(n))
	return max(wait, 0)
}

// giveBack returns what was reserved and not used.
func (u *bucket) giveBack(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.free = u.mu.free.Add(-u.lasts(n))
}

func (u *bucket) lasts(n int) time.Duration {
	return time.Duration(float64(n) / u.rate * float64(time.Second))
}

// sent notes bytes that do not wait. They put off the others' turns by uploadDebt at most, all together.
func (u *bucket) sent(n int) {
	if u.rate == 0 {
		return
	}
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.catchUp(now)
	if latest := now.Add(uploadDebt); u.mu.free.Before(latest) {
		u.mu.free = earlier(latest, u.mu.free.Add(u.lasts(n)))
	}
}

// catchUp forgets what was not used, but for a burst. mu is held.
func (u *bucket) catchUp(now time.Time) {
	if earliest := now.Add(-uploadBurst); u.mu.free.Before(earliest) {
		u.mu.free = earliest
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// share is how much is reserved at a time: little enough for streams to take turns.
func (u *bucket) share() int {
	return min(max(int(u.rate*uploadBurst.Seconds())/4, 1<<10), 64<<10)
}

// turns makes one direction of a stream keep to a bucket's rate.
type turns struct {
	bucket *bucket       // nil: no bound
	ended  chan struct{} // closed when the stream ends
	once   sync.Once     // of that
	mu     struct {
		sync.Mutex
		deadline time.Time
	}
}

// bulky says whether a protocol carries much data: its streams have bulk connections, and wait for the rates' turns.
func bulky(proto protocol.ID) bool {
	p := purposeOf(proto)
	return p == exchange || p == state || proto == ProtocolProbe
}

func (g *turns) open(b *bucket, proto protocol.ID) {
	if b.rate > 0 && bulky(proto) {
		g.bucket = b
		g.ended = make(chan struct{})
	}
}

func (g *turns) until(t time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.deadline = t
}

func (g *turns) shut() {
	if g.bucket != nil {
		g.once.Do(func() { close(g.ended) })
	}
}

// await waits. Its error says that the stream ended meanwhile, or that the deadline comes before.
func (g *turns) await(wait time.Duration, now time.Time) error {
	if wait <= 0 {
		return nil
	}
	g.mu.Lock()
	deadline := g.mu.deadline
	g.mu.Unlock()
	late := !deadline.IsZero() && now.Add(wait).After(deadline)
	if late {
		wait = deadline.Sub(now)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-g.ended:
		return net.ErrClosed
	}
	if late {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// uploadGate is for writes.
type uploadGate struct{ turns }

// take waits until some of n bytes may be written, and says how many.
func (g *uploadGate) take(n int) (int, error) {
	if g.bucket == nil {
		return n, nil
	}
	n = min(n, g.bucket.share())
	now := time.Now()
	if err := g.await(g.bucket.reserve(n, now), now); err != nil {
		g.bucket.giveBack(n)
		return 0, err
	}
	return n, nil
}

// force is take for what cannot wait.
func (g *uploadGate) force(n int) {
	if g.bucket != nil {
		g.bucket.sent(n)
	}
}

// downloadGate is for reads. How much comes shows when it is here: so it is counted then, and the next read waits for the stream's turn. What
// is not read fills the buffers before it, and then TCP or QUIC holds the sender back.
type downloadGate struct {
	turns
	next time.Time // when the stream may read again; of who reads
}

// take waits for the stream's turn, and says how many of n bytes may be read.
func (g *downloadGate) take(n int) (int, error) {
	if g.bucket == nil {
		return n, nil
	}
	now := time.Now()
	return min(n, g.bucket.share()), g.await(g.next.Sub(now), now)
}

// came counts what was read.
func (g *downloadGate) came(n int) {
	if g.bucket != nil && n > 0 {
		now := time.Now()
		g.next = now.Add(g.bucket.reserve(n, now))
	}
}
