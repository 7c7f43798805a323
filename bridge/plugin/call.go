package plugin

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// One call of a host is under way at a time. A goroutine of its own watches it until the reply, the
// end of the process, or its timeout. So a caller may stop waiting: the call goes on, and the next
// one waits for it.

const (
	tick = 50 * time.Millisecond
	// a cancel is repeated, because one that came before the library was in its run is lost
	cancelAgain = 250 * time.Millisecond
	hangGrace   = 2 * time.Second // from the cancel of a call that hangs to the kill
)

// host calls a library in its process.
type host struct {
	*process
	library string
	timeout time.Duration
	log     *slog.Logger
	replied chan reply // closed when no more replies can come
	garbled atomic.Bool
	number  uint32 // of the last request
	// why there is no process any more. The call under way owns it, and then its caller does
	dead error
}

func newHost(p *process, cfg Config) *host {
	h := &host{process: p, library: cfg.Path, timeout: cfg.Timeout, log: cfg.Logger, replied: make(chan reply)}
	go h.receive()
	return h
}

// receive reads replies until the process has closed its end.
func (h *host) receive() {
	defer close(h.replied)
	for {
		r, err := readReply(h.replies)
		if err != nil {
			h.garbled.Store(errors.Is(err, errGarbled))
			return
		}
		select {
		case h.replied <- r:
		case <-h.exited:
			return
		}
	}
}

// call is a request under way.
type call struct {
	request
	doing string // for errors
	// a number that changes while the call makes progress; nil: there is no such number
	beat        func() uint64
	where       func() string // how far it came, for errors; may be nil or return ""
	cancellable bool

	cancelled func()        // asks for an early end, any number of times
	asked     chan struct{} // closed by cancelled
	progress  chan struct{} // holds one token when exported has risen
	exported  atomic.Uint64
	done      chan struct{} // closed when reply, err are set
	reply     reply
	err       error
}

// start sends a request and returns at once.
func (h *host) start(c *call) *call {
	c.asked, c.progress, c.done = make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
	c.cancelled = sync.OnceFunc(func() { close(c.asked) })
	if h.dead != nil {
		c.err = h.dead
		close(c.done)
		return c
	}
	h.number++
	c.number = h.number
	go func() {
		defer close(c.done)
		_ = h.send(c.request, h.timeout) // if it is not delivered, the end of the process says why
		h.watch(c)
	}()
	return c
}

// watch waits for the end of a call.
func (h *host) watch(c *call) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	p := newPatience(h.timeout, c.beat)
	asked := c.asked
	var again time.Time // the last cancel
	for {
		select {
		case r, open := <-h.replied:
			if !open {
				h.lost(c)
				return
			}
			if r.number == c.number && r.code == codeProgress && len(r.payload) == 8 {
				c.advance(native.Uint64(r.payload))
				p.moved()
				continue
			}
			h.finish(c, r)
			return
		case <-h.exited:
			h.crashed(c)
			return
		case <-asked:
			asked, again = nil, time.Now()
			h.cancel(c)
		case now := <-ticker.C:
			if asked == nil && now.Sub(again) > cancelAgain {
				again = now
				h.cancel(c)
			}
			if p.over(now) {
				h.hung(c)
				return
			}
		}
	}
}

func (c *call) isAsked() bool {
	select {
	case <-c.asked:
		return true
	default:
		return false
	}
}

func (c *call) advance(to uint64) {
	c.exported.Store(to)
	select {
	case c.progress <- struct{}{}:
	default:
	}
}

func (h *host) cancel(c *call) {
	if c.cancellable {
		_ = h.send(request{op: opCancel, arg: [requestArgs]uint64{uint64(c.number)}}, tick)
	}
}

// finish takes a reply.
func (h *host) finish(c *call, r reply) {
	c.reply = r
	switch {
	case r.number != c.number:
		h.end(c, fmt.Sprintf("%v", errGarbled), nil)
	case r.code == codeOK:
	case r.code == codeCancelled && c.cancellable && c.isAsked():
		c.err = errCancelled
	case r.code == codeCancelled:
		c.err = h.fault(c, "it reports that it was cancelled, but no cancel was sent", nil)
	case r.code == codeRefused:
		c.err = h.fault(c, oneLine(string(r.payload)), nil)
	default:
		c.err = h.fault(c, reason(r.payload), nil)
	}
}

// errCancelled ends a call that was asked to end.
var errCancelled = errors.New("cancelled")

// lost handles a pipe that has closed: the process is ending, or the library has closed the pipe or
// written into it.
func (h *host) lost(c *call) {
	if h.garbled.Load() {
		h.end(c, errGarbled.Error(), nil)
		return
	}
	select {
	case <-h.exited:
		h.crashed(c)
	case <-time.After(hangGrace):
		h.end(c, "it closed the pipe to the peer (descriptor 4)", nil)
	}
}

func (h *host) crashed(c *call) {
	h.dead = h.fault(c, h.ending()+c.place()+": what it printed stands above", ErrCrashed)
	c.err = h.dead
}

// hung ends a process that makes no progress. It cancels first, because the library may have to
// clean up.
func (h *host) hung(c *call) {
	why := fmt.Sprintf("no progress for %v%s, so it was ended: it hangs, or needs more time than --trainer-timeout "+
		"gives it", h.timeout, c.place())
	h.cancel(c)
	grace := time.After(min(hangGrace, h.timeout))
	for c.cancellable {
		select {
		case r, open := <-h.replied:
			if open && r.code == codeProgress {
				continue
			}
		case <-h.exited:
		case <-grace:
		}
		break
	}
	h.end(c, why, ErrHung)
}

// end kills the process. All further calls return the fault.
func (h *host) end(c *call, problem string, err error) {
	h.kill()
	<-h.exited
	h.dead = h.fault(c, problem, err)
	c.err = h.dead
}

func (h *host) fault(c *call, problem string, err error) error {
	return &Fault{Library: h.library, Doing: c.doing, Problem: problem, Err: err}
}

// place is how far the call came.
func (c *call) place() string {
	if c.where == nil {
		return ""
	}
	return c.where()
}

// patience says when there has been no progress for too long.
type patience struct {
	limit time.Duration
	beat  func() uint64
	last  uint64
	since time.Time
	tick  time.Time
}

func newPatience(limit time.Duration, beat func() uint64) *patience {
	p := &patience{limit: limit, beat: beat, since: time.Now(), tick: time.Now()}
	if beat != nil {
		p.last = beat()
	}
	return p
}

func (p *patience) moved() { p.since = time.Now() }

// over is called at every tick. Ticks that are far apart mean that this process stood still, which
// is not the trainer's fault.
func (p *patience) over(now time.Time) bool {
	stopped := now.Sub(p.tick) > max(p.limit/2, 10*tick)
	p.tick = now
	if p.beat != nil {
		if v := p.beat(); v != p.last {
			p.last, p.since = v, now
		}
	}
	if stopped {
		p.since = now
	}
	return now.Sub(p.since) > p.limit
}
