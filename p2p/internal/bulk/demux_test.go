package bulk

import (
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// pipeConn is one end of a net.Pipe with an address.
type pipeConn struct{ net.Conn }

func (pipeConn) LocalMultiaddr() multiaddr.Multiaddr  { return somewhere }
func (pipeConn) RemoteMultiaddr() multiaddr.Multiaddr { return somewhere }

// pipeListener hands out connections that are put into it, and notes in scopes that are done.
type pipeListener struct {
	conns  chan manet.Conn
	closed chan struct{}
	done   *atomic.Int32
}

func (l *pipeListener) Accept() (manet.Conn, network.ConnManagementScope, error) {
	select {
	case c := <-l.conns:
		return c, &countedScope{done: l.done}, nil
	case <-l.closed:
		return nil, nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error                   { close(l.closed); return nil }
func (l *pipeListener) Multiaddr() multiaddr.Multiaddr { return somewhere }
func (l *pipeListener) Addr() net.Addr                 { return nil }

// TestDemux tells connections apart. What says nothing, or something else, is closed in time, and
// holds up nobody, however many there are.
func TestDemux(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Int32
		l := &pipeListener{conns: make(chan manet.Conn), closed: make(chan struct{}), done: &done}
		inlet := make(Inlet)
		d := demultiplex(l, inlet)
		connect := func(first string) net.Conn {
			x, y := net.Pipe()
			l.conns <- pipeConn{y}
			go func() { _, _ = x.Write([]byte(first)) }()
			return x
		}
		const silent = 200
		began := time.Now()
		for range silent {
			connect("\x13")
		}
		odd := connect("SSH-2.0-")
		connect("\x13/multistream/1.0.0\n")
		c, _, err := d.Accept()
		if err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 20)
		if _, err := io.ReadFull(c, head); err != nil || string(head) != "\x13/multistream/1.0.0\n" {
			t.Errorf("libp2p's connection begins with %q, %v", head, err)
		}
		connect("\x16\x03\x01\x00\x05hello")
		head = head[:10]
		if _, err := io.ReadFull(<-inlet, head); err != nil || string(head) != "\x16\x03\x01\x00\x05hello" {
			t.Errorf("the other connection begins with %q, %v", head, err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the silent held the others up for %s", took)
		}
		if _, err := io.ReadAll(odd); err != nil {
			t.Errorf("what is neither: %v", err)
		}
		time.Sleep(firstBytesTimeout + time.Millisecond)
		if n := done.Load(); n != silent+1 {
			t.Errorf("%d connections were given back to the resource manager, want %d", n, silent+1)
		}
		late := connect("\x13")
		synctest.Wait()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadAll(late); err != nil {
			t.Error("closing the listener leaves a connection open")
		}
		if _, _, err := d.Accept(); err == nil {
			t.Error("Accept after Close")
		}
	})
}

// comingFrom is one end of a net.Pipe with an address of its own.
type comingFrom struct {
	pipeConn
	addr multiaddr.Multiaddr
}

func (c comingFrom) RemoteMultiaddr() multiaddr.Multiaddr { return c.addr }

// TestDemuxManySilent: connections that say nothing are bounded, and those of one network give way
// to others.
func TestDemuxManySilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Int32
		l := &pipeListener{conns: make(chan manet.Conn), closed: make(chan struct{}), done: &done}
		d := demultiplex(l, make(Inlet))
		connect := func(addr string) net.Conn {
			x, y := net.Pipe()
			l.conns <- comingFrom{pipeConn{y}, multiaddr.StringCast(addr)}
			synctest.Wait()
			return x
		}
		few := connect("/ip4/203.0.113.1/tcp/1")
		const silent = 3 * maxSilent
		for i := range silent {
			connect(fmt.Sprintf("/ip4/198.51.100.%d/tcp/1", i&255))
		}
		if n := int(done.Load()); n != 1+silent-maxSilent {
			t.Errorf("%d connections of %d were ended, want all but %d", n, 1+silent, maxSilent)
		}
		go func() { _, _ = few.Write([]byte("\x13/multistream/1.0.0\n")) }()
		c, _, err := d.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}
