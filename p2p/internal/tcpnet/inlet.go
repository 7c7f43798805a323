package tcpnet

import (
	"context"
	"net"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multiaddr"
)

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

// Inlet is where the transport leaves connections that begin with TLS. Its owner takes each one as
// soon as it comes.
type Inlet struct{ conns chan Incoming }

// NewInlet is for one transport.
func NewInlet() *Inlet { return &Inlet{conns: make(chan Incoming)} }

// Conns are the connections. The channel is never closed.
func (i *Inlet) Conns() <-chan Incoming { return i.conns }

// deliver hands a connection on, or ends it when ctx ends before.
func (i *Inlet) deliver(ctx context.Context, in Incoming) {
	select {
	case i.conns <- in:
	case <-ctx.Done():
		in.End()
	}
}
