package peers

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/multiformats/go-multiaddr"
)

// What a user reads who mistyped an address, or whose ticket's peers are gone.
func TestDialFault(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp4", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	tried := &swarm.DialError{Peer: "p", DialErrors: []swarm.TransportError{
		{Address: multiaddr.StringCast("/ip4/192.0.2.1/tcp/4001"), Cause: refused},
		{
			Address: multiaddr.StringCast("/ip4/192.0.2.1/udp/4001/quic-v1"),
			Cause:   errors.New("timeout: no recent network activity"),
		},
		{Address: multiaddr.StringCast("/ip4/192.0.2.2/tcp/4001"), Cause: context.DeadlineExceeded},
	}}
	err := error(&Fault{"p", tried})
	want := "/ip4/192.0.2.1/tcp/4001: connection refused, /ip4/192.0.2.1/udp/4001/quic-v1: no answer, " +
		"/ip4/192.0.2.2/tcp/4001: no answer"
	if err.Error() != want || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%s", err)
	}
	if err := (&Fault{"p", errors.New("no\n  good")}); !strings.HasSuffix(err.Error(), ": no good") {
		t.Errorf("%s", err)
	}
}
