package bulk

import (
	"errors"
	"net"
	"sync"
)

// TLS hands on one record of 16 KiB a Write, and reads one at a time, in two steps. Over loopback
// those system calls cost more than the encryption.
const (
	// MaxHandshake bounds the bytes from the other side in a handshake; with large keys it has 8
	// KiB to say.
	MaxHandshake = 32 << 10
	// bytes of a large read, and of plaintext behind a large write
	RecordsAtOnce = 128 << 10
	RecordsBuffer = RecordsAtOnce + RecordsAtOnce/32 // with what TLS adds
	RecordsSmall  = 4 << 10                          // of a read where little comes
	// small reads in a row after which a large buffer is given back
	recordsCalm = 16
)

var (
	readBuffers  = sync.Pool{New: func() any { return new([RecordsAtOnce]byte) }}
	writeBuffers = sync.Pool{New: func() any { return new([RecordsBuffer]byte) }}
)

// RecordConn lies between TLS and a connection. What TLS writes between gather and flush leaves in
// large writes; reads are as large as what comes. It holds large buffers only while there is much
// to send or receive. One goroutine may read while others write.
type RecordConn struct {
	net.Conn
	in struct { // TLS reads one at a time
		small   []byte
		large   *[RecordsAtOnce]byte
		have    []byte // read and not handed on
		growing bool   // the next read should be large
		calm    int    // small reads in a row
		bounded bool   // by left, and to small reads
		left    int    // bytes that may still be read
	}
	out struct {
		sync.Mutex // held across writes: it keeps their order
		gathering  bool
		held       bool                 // always gathering
		buf        *[RecordsBuffer]byte // nil if nothing waits
		begin, end int                  // of what waits in buf
	}
}

// NewRecordConn wraps a connection so that TLS records leave and arrive in large pieces.
func NewRecordConn(c net.Conn) *RecordConn { return &RecordConn{Conn: c} }

// Restrain is for a handshake, in which a stranger speaks: it may send little, and gets no large
// buffer.
func (c *RecordConn) Restrain(bytes int) { c.in.bounded, c.in.left = true, bytes }

// Release ends that. Nobody reads meanwhile.
func (c *RecordConn) Release() { c.in.bounded = false }

// Read hands on what was read ahead, or reads as much as there is.
func (c *RecordConn) Read(b []byte) (int, error) {
	if len(c.in.have) == 0 {
		if c.in.bounded && c.in.left <= 0 {
			return 0, errTalkative
		}
		n, err := c.Conn.Read(c.room())
		c.in.left -= n
		c.noteRead(n)
		if n == 0 {
			return 0, err
		}
	}
	n := copy(b, c.in.have)
	c.in.have = c.in.have[n:]
	return n, nil
}

// room is the buffer for the next read.
func (c *RecordConn) room() []byte {
	if c.in.growing && c.in.large == nil && !c.in.bounded {
		c.in.large = readBuffers.Get().(*[RecordsAtOnce]byte)
	}
	if c.in.large != nil {
		return c.in.large[:]
	}
	if c.in.small == nil {
		c.in.small = make([]byte, RecordsSmall)
	}
	return c.in.small
}

var errTalkative = errors.New("the other side says too much before the handshake is over")

// noteRead notes what was read into room, and chooses the next room's size.
func (c *RecordConn) noteRead(n int) {
	if c.in.large == nil {
		c.in.have = c.in.small[:n]
		c.in.growing = n == RecordsSmall
		return
	}
	c.in.have = c.in.large[:n]
	if c.in.calm++; n > RecordsSmall {
		c.in.calm = 0
	}
	if c.in.calm >= recordsCalm && n <= RecordsSmall {
		c.Shrink()
	}
}

// Shrink gives a large buffer back, of which no more than RecordsSmall bytes wait to be handed on.
// Nobody reads meanwhile.
func (c *RecordConn) Shrink() {
	if c.in.large == nil || len(c.in.have) > RecordsSmall {
		return
	}
	if c.in.small == nil {
		c.in.small = make([]byte, RecordsSmall)
	}
	c.in.have = c.in.small[:copy(c.in.small, c.in.have)]
	readBuffers.Put(c.in.large)
	c.in.large, c.in.growing, c.in.calm = nil, false, 0
}

// Gather has what is written from now on wait for flush.
func (c *RecordConn) Gather() {
	c.out.Lock()
	defer c.out.Unlock()
	c.out.gathering = true
}

// Hold has all that is written from now on wait for flush: what TLS writes of itself, too, when the
// other side asks for new keys. It does so while it reads, and would hold up the reader, beyond any
// deadline, if the other side took nothing.
func (c *RecordConn) Hold() {
	c.out.Lock()
	defer c.out.Unlock()
	c.out.held = true
}

var errUnasked = errors.New("the other side asks for more than it takes")

// Write keeps b for flush if that was asked for. It writes through what does not fit, and at other
// times; on a connection that is held it fails then.
func (c *RecordConn) Write(b []byte) (int, error) {
	c.out.Lock()
	defer c.out.Unlock()
	if c.out.held {
		return c.buffer(b)
	}
	if c.out.gathering && len(b) > len(c.out.buf)-c.out.end || !c.out.gathering {
		if _, err := c.flushLocked(); err != nil {
			return 0, err
		}
	}
	if !c.out.gathering || len(b) > len(c.out.buf) {
		return c.Conn.Write(b)
	}
	return c.buffer(b)
}

// buffer puts b into the buffer. out is locked.
func (c *RecordConn) buffer(b []byte) (int, error) {
	if len(b) > len(c.out.buf)-c.out.end {
		return 0, errUnasked
	}
	if c.out.buf == nil {
		c.out.buf = writeBuffers.Get().(*[RecordsBuffer]byte)
	}
	c.out.end += copy(c.out.buf[c.out.end:], b)
	return len(b), nil
}

// Free is how many bytes Write keeps without writing any.
func (c *RecordConn) Free() int {
	c.out.Lock()
	defer c.out.Unlock()
	return len(c.out.buf) - c.out.end
}

// Flush writes what waits, and says how many bytes left. After an error the rest still waits: where
// it was a timeout another flush may go on.
func (c *RecordConn) Flush() (int, error) {
	c.out.Lock()
	defer c.out.Unlock()
	c.out.gathering = false
	return c.flushLocked()
}

func (c *RecordConn) flushLocked() (int, error) {
	if c.out.buf == nil {
		return 0, nil
	}
	n, err := c.Conn.Write(c.out.buf[c.out.begin:c.out.end])
	if c.out.begin += n; c.out.begin < c.out.end {
		c.compact()
		return n, err
	}
	writeBuffers.Put(c.out.buf)
	c.out.buf, c.out.begin, c.out.end = nil, 0, 0
	return n, err
}

// compact moves what waits to the front, so that the room is behind it.
func (c *RecordConn) compact() {
	c.out.end = copy(c.out.buf[:], c.out.buf[c.out.begin:c.out.end])
	c.out.begin = 0
}
