package bulk

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
)

// What one connection may take, in bytes, as the resource manager counts it: the buffers of records
// and TLS's own. A stranger counts among all others that shake hands, and gets small ones.
const (
	shakeMemory = 2*MaxHandshake + RecordsSmall
	connMemory  = 768 << 10
)

// conn is a TLS connection without a muxer. It carries one stream at a time; the dialer opens
// them.
type conn struct {
	b       *Conns
	peer    peer.ID
	dialled bool // by this side
	raw     net.Conn
	records *RecordConn
	tls     *tls.Conn
	scope   network.ConnManagementScope
	opened  time.Time
	once    sync.Once // of close
	sent    atomic.Int64
	came    atomic.Int64 // like sent: records under the key of its direction

	head [headerSize]byte // the reader's
	got  int              // bytes of head that have come
	out  []byte           // the writer's scratch for headers

	parked *parked       // while it is idle; guarded by bulk.mu
	place  *limits.Lease // an accepted stranger's; of the goroutine of serve
}

// handshake makes a bulk connection of a TCP connection. Both sides prove their peer IDs as in
// libp2p's TLS. to is empty on the accepting side. The caller closes raw and scope after an error.
func (b *Conns) handshake(ctx context.Context, raw net.Conn, to peer.ID, scope network.ConnManagementScope) (*conn,
	error,
) {
	if err := scope.ReserveMemory(shakeMemory, network.ReservationPriorityMedium); err != nil {
		return nil, err
	}
	conf, keys := b.identity.ConfigForPeer(to)
	conf.NextProtos = []string{alpn}
	conf.DynamicRecordSizingDisabled = true
	c := &conn{
		b: b, dialled: to != "", raw: raw, opened: time.Now(), records: NewRecordConn(raw), scope: scope,
		out: make([]byte, 0, headerSize+maxProtocolName),
	}
	if c.tls = tls.Server(c.records, conf); c.dialled {
		c.tls = tls.Client(c.records, conf)
	}
	c.records.Restrain(MaxHandshake)
	if err := c.tls.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	c.records.Release()
	c.records.Hold()
	if c.tls.ConnectionState().NegotiatedProtocol != alpn {
		return nil, errors.New("the other side does not speak " + alpn)
	}
	var err error
	if c.peer, err = b.proven(keys); err != nil {
		return nil, err
	}
	if !c.dialled {
		if err := scope.SetPeer(c.peer); err != nil {
			return nil, err
		}
	}
	return c, scope.ReserveMemory(connMemory-shakeMemory, network.ReservationPriorityMedium)
}

// proven is whose identity was proved in a handshake.
func (b *Conns) proven(keys <-chan crypto.PubKey) (peer.ID, error) {
	id, _, err := Proven(keys)
	if err == nil && id == b.env.Host.ID() {
		err = errors.New("that is this peer itself")
	}
	return id, err
}

// close resets the connection and forgets it. Whatever blocks on it ends.
func (c *conn) close() {
	c.once.Do(func() {
		_ = c.raw.Close()
		c.scope.Done()
		c.b.forget(c)
	})
}

// readHeader reads the next header. After a timeout it can be called again.
func (c *conn) readHeader() (header, error) {
	for c.got < headerSize {
		k, err := c.tls.Read(c.head[c.got:])
		if c.got += k; err != nil && c.got < headerSize {
			return header{}, cutShort(err)
		}
	}
	c.got = 0
	h, err := parseHeader(c.head[:])
	if err == nil {
		err = wear(&c.came, h.length)
	}
	return h, err
}

// cutShort tells a connection that ends from a stream that does: TLS says io.EOF where the peer
// closed it.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// expect reads a message of one kind, by a deadline, and what follows it.
func (c *conn) expect(kind kind, until time.Time) ([]byte, error) {
	if err := c.raw.SetReadDeadline(until); err != nil {
		return nil, err
	}
	h, err := c.readHeader()
	if err != nil {
		return nil, err
	}
	if h.kind != kind {
		return nil, fmt.Errorf("%w: message of kind %d on a bulk connection, where %d was due", wire.ErrMalformed,
			h.kind, kind)
	}
	b := make([]byte, h.length) // small, as the header was checked, for all kinds that are expected
	if _, err := io.ReadFull(c.tls, b); err != nil {
		return nil, cutShort(err)
	}
	return b, c.raw.SetReadDeadline(time.Time{})
}

// put encrypts a message into the buffer, which has room for it.
func (c *conn) put(kind kind, payload []byte) error {
	if err := wear(&c.sent, len(payload)); err != nil {
		return err
	}
	if _, err := c.tls.Write(header{kind, len(payload)}.append(c.out[:0])); err != nil || len(payload) == 0 {
		return err
	}
	_, err := c.tls.Write(payload)
	return err
}

// send writes a short message by a deadline.
func (c *conn) send(kind kind, payload []byte, until time.Time) error {
	if err := c.raw.SetWriteDeadline(until); err != nil {
		return err
	}
	if err := c.put(kind, payload); err != nil {
		return err
	}
	if _, err := c.records.Flush(); err != nil {
		return err
	}
	return c.raw.SetWriteDeadline(time.Time{})
}

// Room for one message, in plaintext bytes, of which the records fit the free part of the buffer.
const (
	recordSize     = 16 << 10
	recordOverhead = 5 + 1 + 16 // header, content type, tag
	// the header's own record, and a last record that is not full
	messageSpare = headerSize + 2*recordOverhead
	leastRoom    = messageSpare + recordOverhead + 1<<10 // less is not worth a record
)

// room is how many bytes one message may have now.
func (c *conn) room() int {
	free := c.records.Free()
	if free < leastRoom {
		return 0
	}
	free -= messageSpare
	return min(free-(free/recordSize+1)*recordOverhead, RecordsAtOnce)
}

// A TLS 1.3 connection should not carry more than 2^24.5 records under one key (RFC 8446, 5.5), and
// each direction has its own. A connection gets no further stream when it has carried 2^24, which
// are 274 GB in large records.
const (
	maxRecords     = 23_726_566
	keptForRecords = 1 << 24
)

var errWornOut = errors.New("the connection has carried as much as its keys may: open another stream")

// wear counts the records of one message. The other side's may be smaller: that is at its own risk.
func wear(records *atomic.Int64, length int) error {
	if records.Add(int64(1+(length+recordSize-1)/recordSize)) > maxRecords {
		return errWornOut
	}
	return nil
}

// worn says whether the connection should carry no more streams.
func (c *conn) worn() bool {
	return max(c.sent.Load(), c.came.Load()) > keptForRecords
}

// alpn names the protocol that a bulk connection speaks inside TLS.
const alpn = "p2pdiloco/bulk/1"

// kind is what a message of a bulk connection says. Each begins with a kind (one byte) and the
// length of what follows (three bytes, big-endian).
type kind uint8

const (
	kindOpen  kind = iota + 1 // from the dialer: a stream begins; its protocol's name follows
	kindData                  // bytes of the stream
	kindEnd                   // no more bytes this way
	kindReady                 // from the acceptor, once: the connection is taken
)

const (
	headerSize      = 4
	maxData         = 1<<24 - 1
	maxProtocolName = 128
)

type header struct {
	kind   kind
	length int // of what follows
}

func (h header) append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(h.kind)<<24|uint32(h.length))
}

// parseHeader takes exactly headerSize bytes.
func parseHeader(b []byte) (header, error) {
	v := binary.BigEndian.Uint32(b)
	h := header{kind(v >> 24), int(v & maxData)}
	switch {
	case h.kind == kindData && h.length > 0:
	case h.kind == kindOpen && h.length > 0 && h.length <= maxProtocolName:
	case (h.kind == kindEnd || h.kind == kindReady) && h.length == 0:
	default:
		return header{}, fmt.Errorf("%w: message of kind %d with %d bytes on a bulk connection", wire.ErrMalformed,
			h.kind, h.length)
	}
	return h, nil
}
