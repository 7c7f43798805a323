package allreduce

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// A Write takes at most maxChunk: what a TLS layer with large records takes at once. A chunk is
// also the granularity at which the other side may see progress (a stream multiplexer hands a
// message on when all of it is there), so that it is less where the link is slow: at 16 KiB a link
// may be as slow as 3 KiB/s a stream and still not look dead within a Stall of 6 s.
const (
	minChunk   = 16 << 10
	firstChunk = 64 << 10
	maxChunk   = 128 << 10
)

var (
	errBadBytes = errors.New("protocol broken") // the peer's bytes are wrong, not the connection
	errStuck    = errors.New("connected but without progress")
	errRefused  = errors.New("own contribution refused")
)

// link reads and writes one stream and gives up when nothing moves for the stall limit. One
// goroutine may read while another writes.
type link struct {
	s     wire.Stream
	stall time.Duration
	head  [headerSize]byte // of the frame being read
	read  direction
	write direction
	chunk int // bytes of the next Write; 0: firstChunk
	lane  laneUse
	// what goes with what is written next. Flush it before waiting for anything
	out      []byte
	together int            // bytes that out may hold; 0: everything is written at once
	sent     *atomic.Uint64 // bytes
	received *atomic.Uint64
	meter    func() func(bytes int) // if set, measures writes: meter.to
}

// direction is what is kept for one direction. Its deadline is renewed lazily: setting one costs a
// lock and a timer.
type direction struct {
	set time.Time // when the deadline was last set
}

func (d *direction) renew(stall time.Duration, set func(time.Time) error) error {
	now := time.Now()
	if now.Sub(d.set) < stall/4 {
		return nil
	}
	d.set = now
	return set(now.Add(stall + stall/4))
}

// readFull fills b. Any byte that arrives counts as progress, and is added to count if there is
// one.
func (l *link) readFull(b []byte, count *atomic.Uint64) error {
	for len(b) > 0 {
		if err := l.read.renew(l.stall, l.s.SetReadDeadline); err != nil {
			return err
		}
		n, err := l.s.Read(b)
		l.received.Add(uint64(n))
		if count != nil {
			count.Add(uint64(n))
		}
		b = b[n:]
		if err != nil && len(b) > 0 {
			return err
		}
	}
	return nil
}

// writeAll writes b in chunks. Whatever is taken counts as progress: a write that runs out of time
// with a part done goes on.
func (l *link) writeAll(b []byte) error {
	for len(b) > 0 {
		if err := l.write.renew(l.stall, l.s.SetWriteDeadline); err != nil {
			return err
		}
		if l.chunk == 0 {
			l.chunk = firstChunk
		}
		began := time.Now()
		n, err := l.measured(b[:min(l.chunk, len(b))])
		l.sent.Add(uint64(n))
		if n == 0 || err != nil && !wire.TimedOut(err) {
			return cmp.Or(err, io.ErrShortWrite)
		}
		l.pace(time.Since(began))
		if b = b[n:]; err != nil {
			l.write.set = time.Time{} // the deadline has passed: a new one
		}
	}
	return nil
}

func (l *link) measured(b []byte) (int, error) {
	if l.meter == nil {
		return l.s.Write(b)
	}
	end := l.meter()
	n, err := l.s.Write(b)
	end(n)
	return n, err
}

// closeWrite says that no more bytes follow, and has as long for what is left as any write.
func (l *link) closeWrite() error {
	l.write.set = time.Time{}
	if err := l.write.renew(l.stall, l.s.SetWriteDeadline); err != nil {
		return err
	}
	return l.s.CloseWrite()
}

// pace makes chunks smaller where one takes long, and larger where it does not.
func (l *link) pace(took time.Duration) {
	switch {
	case took > l.stall/16:
		l.chunk = max(minChunk, l.chunk/2)
	case took < l.stall/64:
		l.chunk = min(maxChunk, l.chunk*2)
	}
}

// readHeader reads the next header. io.EOF comes back as it is only between frames.
func (l *link) readHeader() (header, error) {
	b := l.head[:]
	if err := l.readFull(b[:1], nil); err != nil {
		return header{}, err
	}
	if err := l.readAtOnce(b[1:]); err != nil {
		return header{}, err
	}
	h, err := parseHeader(b)
	if err != nil {
		return header{}, fmt.Errorf("%w: %w", errBadBytes, err)
	}
	return h, nil
}

// readAtOnce reads bytes that were written together with those before them. They are no progress,
// so one deadline holds for all of them: a peer that sends them one by one must not keep others
// waiting without an end and unseen.
func (l *link) readAtOnce(b []byte) error {
	if err := l.read.renew(l.stall, l.s.SetReadDeadline); err != nil {
		return err
	}
	n, err := io.ReadFull(l.s, b)
	l.received.Add(uint64(n))
	return unexpected(err)
}

// readPayload reads what follows a header whose length was checked.
func (l *link) readPayload(b []byte, count *atomic.Uint64) error {
	return unexpected(l.readFull(b, count))
}

// heard takes an alive message of a peer that must go on within the limit.
func (l *link) heard(moved *progress, limit time.Duration) error {
	count, err := l.readAlive()
	if err != nil {
		return err
	}
	return moved.heard(count, limit)
}

func (l *link) readAlive() (uint64, error) {
	b := l.head[:aliveSize]
	err := l.readAtOnce(b)
	return binary.BigEndian.Uint64(b), err
}

// outBytes is how much is put together for one Write: headers and small frames cost a system call
// and a wake-up each, alone. It is four records of TLS.
const outBytes = 64 << 10

func (l *link) writeAlive(progress uint64) error {
	l.out = appendAlive(l.out, progress)
	return l.flush()
}

// writeFrame writes a header and its payload, of which a part may stay in out. Of a large payload
// only what fills out up is copied.
func (l *link) writeFrame(kind frameKind, index int, payload []byte) error {
	h := header{kind, uint32(index), uint32(len(payload))}
	l.out = h.Append(l.out)
	return l.put(payload)
}

// put writes b with what is in out, or leaves both there while they fit.
func (l *link) put(b []byte) error {
	if n := max(0, min(len(b), l.together-len(l.out))); n > 0 {
		l.out, b = append(l.out, b[:n]...), b[n:]
	}
	if len(b) == 0 && len(l.out) < l.together {
		return nil
	}
	if err := l.flush(); err != nil {
		return err
	}
	if len(b) < l.together { // too little for a Write of its own
		l.out = append(l.out, b...)
		return nil
	}
	return l.writeAll(b)
}

// flush writes what is in out.
func (l *link) flush() error {
	if len(l.out) == 0 {
		return nil
	}
	err := l.writeAll(l.out)
	l.out = l.out[:0]
	return err
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// progress tells a peer that waits from one that hangs, by the counts in its alive messages.
type progress struct {
	at    time.Time // when something last moved
	count uint64    // the highest count seen
}

func (p *progress) moved() { p.at = time.Now() }

// heard takes an alive message and says whether the peer has made no progress for longer than
// limit.
func (p *progress) heard(count uint64, limit time.Duration) error {
	if count > p.count {
		p.count = count
		p.moved()
	}
	if time.Since(p.at) > limit {
		return errStuck
	}
	return nil
}
