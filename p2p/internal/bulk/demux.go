package bulk

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/transport/tcpreuse"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

const (
	firstBytesTimeout = 5 * time.Second // that a connection may take to say what it is
	// connections that have not said it: a quarter of what the resource manager has for those that
	// are none's yet
	maxSilent = 256
)

// demux tells connections apart by their first bytes: libp2p's come out of Accept, those that begin
// with TLS go to inlet. Connections that have said nothing yet count as transient for the resource
// manager, which bounds them in all and for each address.
type demux struct {
	transport.GatedMaListener
	inlet  Inlet
	libp2p chan arrivedConn
	ctx    context.Context // ends when Close begins
	cancel context.CancelFunc
	wg     sync.WaitGroup
	silent *limits.Pool
}

type arrivedConn struct {
	conn  manet.Conn
	scope network.ConnManagementScope
	err   error
}

func demultiplex(l transport.GatedMaListener, inlet Inlet) *demux {
	d := &demux{GatedMaListener: l, inlet: inlet, libp2p: make(chan arrivedConn), silent: limits.NewPool(maxSilent)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.wg.Go(d.run)
	return d
}

// run takes connections in until the listener is closed. The caller of Accept decides which errors
// end that.
func (d *demux) run() {
	for d.ctx.Err() == nil {
		c, scope, err := d.GatedMaListener.Accept()
		if err != nil {
			d.deliver(arrivedConn{err: err})
			continue
		}
		d.wg.Go(func() { d.identify(c, scope) })
	}
}

// identify reads the first bytes of a connection and hands it on.
func (d *demux) identify(c manet.Conn, scope network.ConnManagementScope) {
	stop := context.AfterFunc(d.ctx, func() { _ = c.Close() })
	defer stop()
	PrepareTCP(c)
	first, err := d.firstBytes(c)
	again := &peeked{Conn: c, first: first[:]}
	switch {
	case err == nil && tcpreuse.IsMultistreamSelect(first) && d.deliver(arrivedConn{again, scope, nil}):
	case err == nil && tcpreuse.IsTLS(first):
		stop() // the connection belongs to the inlet's owner from now on
		d.inlet.deliver(d.ctx, Incoming{again, c.RemoteMultiaddr(), scope})
	default:
		_ = c.Close()
		scope.Done()
	}
}

// firstBytes are what a connection says first.
func (d *demux) firstBytes(c manet.Conn) (first tcpreuse.Prefix, err error) {
	// of those without a stream there is always one that goes for another
	defer d.silent.Take(peers.Site(c.RemoteMultiaddr()), func() { _ = c.Close() }).Return()
	if err = c.SetReadDeadline(time.Now().Add(firstBytesTimeout)); err != nil {
		return first, err
	}
	if _, err = io.ReadFull(c, first[:]); err != nil {
		return first, err
	}
	return first, c.SetReadDeadline(time.Time{})
}

// PrepareTCP does what libp2p does with its TCP connections: a closed one is reset, so that no port
// waits.
func PrepareTCP(c net.Conn) {
	if t, ok := c.(interface {
		SetLinger(int) error
		SetKeepAlive(bool) error
		SetKeepAlivePeriod(time.Duration) error
	}); ok {
		_ = t.SetLinger(0) // all three are for the better, and not needed
		_ = t.SetKeepAlive(true)
		_ = t.SetKeepAlivePeriod(30 * time.Second)
	}
}

func (d *demux) deliver(a arrivedConn) bool {
	select {
	case d.libp2p <- a:
		return true
	case <-d.ctx.Done():
		return false
	}
}

// Accept implements transport.GatedMaListener.
func (d *demux) Accept() (manet.Conn, network.ConnManagementScope, error) {
	select {
	case a := <-d.libp2p:
		return a.conn, a.scope, a.err
	case <-d.ctx.Done():
		return nil, nil, net.ErrClosed
	}
}

// Close implements transport.GatedMaListener. It waits for the goroutines.
func (d *demux) Close() error {
	d.cancel()
	err := d.GatedMaListener.Close()
	d.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // closed twice
	}
	return err
}

// peeked is a connection of which the first bytes have been read.
type peeked struct {
	manet.Conn
	first []byte // not handed on yet
}

func (c *peeked) Read(b []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// Incoming is a TCP connection that begins with TLS. The resource manager has bounded the number of
// those whose peers are not known yet, in all and for each address.
type Incoming struct {
	net.Conn
	From  multiaddr.Multiaddr
	Scope network.ConnManagementScope
}

// End closes the connection and gives it back to the resource manager.
func (in Incoming) End() {
	_ = in.Close() // it may be closed already
	in.Scope.Done()
}

// Inlet is where one transport leaves connections that begin with TLS. Its owner takes each one as
// soon as it comes. It is never closed.
type Inlet chan Incoming

// deliver hands a connection on, or ends it when ctx ends before.
func (i Inlet) deliver(ctx context.Context, in Incoming) {
	select {
	case i <- in:
	case <-ctx.Done():
		in.End()
	}
}
