package p2p

import (
	"errors"
	"net"
	"sync"
)

// TLS hands on one record of 16 KiB a Write, and reads one at a time, in two steps. Over loopback those system calls cost more than the
// encryption.
const (
	recordsAtOnce = 128 << 10                        // bytes of a large read, and of plaintext behind a large write
	recordsBuffer = recordsAtOnce + recordsAtOnce/32 // with what TLS adds
	recordsSmall  = 4 << 10                          // of a read where little comes
	recordsCalm   = 16                               // small reads in a row after which a large buffer is given back
)

var (
	readBuffers  = sync.Pool{New: func() any { return new([recordsAtOnce]byte) }}
	writeBuffers = sync.Pool{New: func() any { return new([recordsBuffer]byte) }}
)

// recordConn lies between TLS and a connection. What TLS writes between gather and flush leaves in large writes; reads are as large as what comes.
// It holds large buffers only while there is much to send or receive. One goroutine may read while others write.
type recordConn struct {
	net.Conn
	in struct { // TLS reads one at a time
		small   []byte
		large   *[recordsAtOnce]byte
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
		buf        *[recordsBuffer]byte // nil if nothing waits
		begin, end int                  // of what waits in buf
	}
}

func newRecordConn(c net.Conn) *recordConn { return &recordConn{Conn: c} }

// restrain is for a handshake, in which a stranger speaks: it may send little, and gets no large buffer.
func (c *recordConn) restrain(bytes int) { c.in.bounded, c.in.left = true, bytes }

// release ends that. Nobody reads meanwhile.
func (c *recordConn) release() { c.in.bounded = false }

// Read hands on what was read ahead, or reads as much as there is.
func (c *recordConn) Read(b []byte) (int, error) {
	if len(c.in.have) == 0 {
		if c.in.bounded && c.in.left <= 0 {
			return 0, errTalkative
		}
		n, err := c.Conn.Read(c.room())
		c.in.left -= n
		c.took(n)
		if n == 0 {
			return 0, err
		}
	}
	n := copy(b, c.in.have)
	c.in.have = c.in.have[n:]
	return n, nil
}

// room is the buffer for the next read.
func (c *recordConn) room() []byte {
	if c.in.growing && c.in.large == nil && !c.in.bounded {
		c.in.large = readBuffers.Get().(*[recordsAtOnce]byte)
	}
	if c.in.large != nil {
		return c.in.large[:]
	}
	if c.in.small == nil {
		c.in.small = make([]byte, recordsSmall)
	}
	return c.in.small
}

var errTalkative = errors.New("the other side says too much before the handshake is over")

// took notes what was read into room, and chooses the next room's size.
func (c *recordConn) took(n int) {
	if c.in.large == nil {
		c.in.have = c.in.small[:n]
		c.in.growing = n == recordsSmall
		return
	}
	c.in.have = c.in.large[:n]
	if c.in.calm++; n > recordsSmall {
		c.in.calm = 0
	}
	if c.in.calm >= recordsCalm && n <= recordsSmall {
		c.shrink()
	}
}

// shrink gives a large buffer back, of which no more than recordsSmall bytes wait to be handed on. Nobody reads meanwhile.
func (c *recordConn) shrink() {
	if c.in.large == nil || len(c.in.have) > recordsSmall {
		return
	}
	if c.in.small == nil {
		c.in.small = make([]byte, recordsSmall)
	}
	c.in.have = c.in.small[:copy(c.in.small, c.in.have)]
	readBuffers.Put(c.in.large)
	c.in.large, c.in.growing, c.in.calm = nil, false, 0
}

// gather has what is written from now on wait for flush.
func (c *recordConn) gather() {
	c.out.Lock()
	defer c.out.Unlock()
	c.out.gathering = true
}

// hold has all that is written from now on wait for flush: what TLS writes of itself, too, when the other side asks for new keys. It does so while
// it reads, and would hold up the reader, beyond any deadline, if the other side took nothing.
func (c *recordConn) hold() {
	c.out.Lock()
	defer c.out.Unlock()
	c.out.held = true
}

var errUnasked = errors.New("the other side asks for more than it takes")

// Write keeps b for flush if that was asked for. It writes through what does not fit, and at other times; on a connection that is held it
// fails then.
func (c *recordConn) Write(b []byte) (int, error) {
	c.out.Lock()
	defer c.out.Unlock()
	if c.out.held {
		return c.keep(b)
	}
	if c.out.gathering && len(b) > len(c.out.buf)-c.out.end || !c.out.gathering {
		if _, err := c.flushLocked(); err != nil {
			return 0, err
		}
	}
	if !c.out.gathering || len(b) > len(c.out.buf) {
		return c.Conn.Write(b)
	}
	return c.keep(b)
}

// keep puts b into the buffer. out is locked.
func (c *recordConn) keep(b []byte) (int, error) {
	if len(b) > len(c.out.buf)-c.out.end {
		return 0, errUnasked
	}
	if c.out.buf == nil {
		c.out.buf = writeBuffers.Get().(*[recordsBuffer]byte)
	}
	c.out.end += copy(c.out.buf[c.out.end:], b)
	return len(b), nil
}

// free is how many bytes Write keeps without writing any.
func (c *recordConn) free() int {
	c.out.Lock()
	defer c.out.Unlock()
	return len(c.out.buf) - c.out.end
}

// flush writes what waits. After an error the rest still waits: where it was a timeout another flush may go on.
func (c *recordConn) flush() error {
	_, err := c.push()
	return err
}

// push is flush, and says how many bytes left.
func (c *recordConn) push() (int, error) {
	c.out.Lock()
	defer c.out.Unlock()
	c.out.gathering = false
	return c.flushLocked()
}

func (c *recordConn) flushLocked() (int, error) {
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
func (c *recordConn) compact() {
	c.out.end = copy(c.out.buf[:], c.out.buf[c.out.begin:c.out.end])
	c.out.begin = 0
}
