package p2p

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/libp2p/go-libp2p/p2p/transport/tcpreuse"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

const (
	firstBytesTimeout = 5 * time.Second // that a connection may take to say what it is
	maxSilent         = 256             // connections that have not said it: a quarter of what the resource manager has for those that are none's yet
)

// tcpTransport is libp2p's TCP transport, whose port takes bulk connections as well: these begin with a TLS ClientHello, those of libp2p
// with multistream-select. go-libp2p's own demultiplexer (tcpreuse.ConnMgr) is not used: 64 connections that say nothing hold up all others there.
type tcpTransport struct {
	*tcp.TcpTransport
	upgrader transport.Upgrader
	bulk     *bulk
	ports    *tcpPorts
}

// newTCPTransport returns a constructor for libp2p.Transport.
func newTCPTransport(b *bulk) func(transport.Upgrader, network.ResourceManager) (*tcpTransport, error) {
	return func(u transport.Upgrader, limits network.ResourceManager) (*tcpTransport, error) {
		t, err := tcp.NewTCPTransport(u, limits, nil, tcp.DisableReuseport())
		if err != nil {
			return nil, err
		}
		ports := &tcpPorts{observe: b.observes}
		ports.punching, err = tcp.NewTCPTransport(u, limits, nil, tcp.DisableReuseport(), tcp.WithDialerForAddr(ports.dialer))
		return &tcpTransport{TcpTransport: t, upgrader: u, bulk: b, ports: ports}, err
	}
}

// Listen implements transport.Transport.
func (t *tcpTransport) Listen(a multiaddr.Multiaddr) (transport.Listener, error) {
	t.bulk.ports.Store(t.ports) // libp2p makes a second transport, for tries of others' addresses under another name: that one does not listen
	l, err := t.ports.listen(a)
	if err != nil {
		return nil, err
	}
	return t.upgrader.UpgradeGatedMaListener(t, demultiplex(t.upgrader.GateMaListener(l), t.bulk.accept)), nil
}

// demux tells connections apart by their first bytes: libp2p's come out of Accept, those that begin with TLS go to other. Connections
// that have said nothing yet count as transient for the resource manager, which bounds them in all and for each address.
type demux struct {
	transport.GatedMaListener
	other  func(net.Conn, multiaddr.Multiaddr, network.ConnManagementScope)
	libp2p chan arrivedConn
	ctx    context.Context // ends when Close begins
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     struct {
		sync.Mutex
		silent places
	}
}

type arrivedConn struct {
	conn  manet.Conn
	scope network.ConnManagementScope
	err   error
}

func demultiplex(l transport.GatedMaListener, other func(net.Conn, multiaddr.Multiaddr, network.ConnManagementScope)) *demux {
	d := &demux{GatedMaListener: l, other: other, libp2p: make(chan arrivedConn)}
	d.mu.silent = newPlaces(maxSilent)
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.wg.Go(d.run)
	return d
}

// run takes connections in until the listener is closed. Whoever calls Accept decides which errors end that.
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
	prepareTCP(c)
	first, err := d.firstBytes(c)
	again := &peeked{Conn: c, first: first[:]}
	switch {
	case err == nil && tcpreuse.IsMultistreamSelect(first) && d.deliver(arrivedConn{again, scope, nil}):
	case err == nil && tcpreuse.IsTLS(first):
		d.other(again, c.RemoteMultiaddr(), scope)
	default:
		_ = c.Close()
		scope.Done()
	}
}

// firstBytes are what a connection says first.
func (d *demux) firstBytes(c manet.Conn) (first tcpreuse.Prefix, err error) {
	over := d.placeFor(c)
	defer over()
	if err = c.SetReadDeadline(time.Now().Add(firstBytesTimeout)); err != nil {
		return first, err
	}
	if _, err = io.ReadFull(c, first[:]); err != nil {
		return first, err
	}
	return first, c.SetReadDeadline(time.Time{})
}

// placeFor has a place for a connection among the silent. Another one may lose its own.
func (d *demux) placeFor(c manet.Conn) (over func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	mine, lost := d.mu.silent.take(siteOf(c.RemoteMultiaddr()), func() { _ = c.Close() })
	if lost != nil {
		lost.evict()
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.mu.silent.leave(mine) // of those without a stream there is always one that goes for another
	}
}

// prepareTCP does what libp2p does with its TCP connections: a closed one is reset, so that no port waits.
func prepareTCP(c net.Conn) {
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
