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

// upload is a token bucket over all streams that carry much data: exchange, state and probes. What else is sent takes tokens too, and never waits
// for them. Who waits is served in turn.
type upload struct {
	rate float64 // bytes a second; 0: no bound
	mu   struct {
		sync.Mutex
		free time.Time // when all that was granted will have been sent
	}
}

// reserve takes n bytes' time and returns how long to wait before they may be sent.
func (u *upload) reserve(n int, now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.catchUp(now)
	wait := u.mu.free.Sub(now)
	u.mu.free = u.mu.free.Add(u.lasts(n))
	return max(wait, 0)
}

// giveBack returns what was reserved and not used.
func (u *upload) giveBack(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.free = u.mu.free.Add(-u.lasts(n))
}

func (u *upload) lasts(n int) time.Duration {
	return time.Duration(float64(n) / u.rate * float64(time.Second))
}

// sent notes bytes that do not wait. They put off the others' turns by uploadDebt at most, all together.
func (u *upload) sent(n int) {
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
func (u *upload) catchUp(now time.Time) {
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
func (u *upload) share() int {
	return min(max(int(u.rate*uploadBurst.Seconds())/4, 1<<10), 64<<10)
}

// uploadGate makes one stream keep to the upload's rate.
type uploadGate struct {
	upload *upload       // nil: no bound
	ended  chan struct{} // closed when the stream ends
	once   sync.Once     // of that
	mu     struct {
		sync.Mutex
		deadline time.Time // of writes
	}
}

// bulky says whether a protocol carries much data: its streams have bulk connections, and wait for the upload's rate.
func bulky(proto protocol.ID) bool {
	p := purposeOf(proto)
	return p == exchange || p == state || proto == ProtocolProbe
}

func (g *uploadGate) open(n *Network, proto protocol.ID) {
	if n.upload.rate > 0 && bulky(proto) {
		g.upload = &n.upload
		g.ended = make(chan struct{})
	}
}

func (g *uploadGate) until(t time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.deadline = t
}

func (g *uploadGate) shut() {
	if g.upload != nil {
		g.once.Do(func() { close(g.ended) })
	}
}

// take waits until some of n bytes may be written, and says how many.
func (g *uploadGate) take(n int) (int, error) {
	if g.upload == nil {
		return n, nil
	}
	g.mu.Lock()
	deadline := g.mu.deadline
	g.mu.Unlock()
	n = min(n, g.upload.share())
	now := time.Now()
	wait := g.upload.reserve(n, now)
	if wait == 0 {
		return n, nil
	}
	late := !deadline.IsZero() && now.Add(wait).After(deadline)
	if late {
		wait = deadline.Sub(now)
	}
	if err := g.sleep(wait, late); err != nil {
		g.upload.giveBack(n)
		return 0, err
	}
	return n, nil
}

// force is take for what cannot wait.
func (g *uploadGate) force(n int) {
	if g.upload != nil {
		g.upload.sent(n)
	}
}

// sleep waits. Its error says that the stream ended meanwhile, or that the deadline came before the turn.
func (g *uploadGate) sleep(d time.Duration, late bool) error {
	timer := time.NewTimer(d)
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
