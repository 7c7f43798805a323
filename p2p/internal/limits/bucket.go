package limits

import (
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

// Bounded says whether there is a bound.
func (b *Bucket) Bounded() bool { return b.rate > 0 }

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
		b.mu.free = earlier(latest, b.mu.free.Add(b.lasts(n)))
	}
}

// ahead is how much time what is granted and has not been sent will take.
func (b *Bucket) ahead(now time.Time) time.Duration {
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

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// share is how much is taken at a time: little enough for streams to take turns.
func (b *Bucket) share() int {
	return min(max(int(b.rate*burst.Seconds())/4, 1<<10), 64<<10)
}
