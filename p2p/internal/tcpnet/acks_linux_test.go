package tcpnet

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Where the system does not count what was acknowledged nothing waits for it.
func TestSystemsThatDoNotCountAcks(t *testing.T) {
	if acksIn(&unix.TCPInfo{Unacked: 3, Rtt: 1000}).Waiting {
		t.Error("something waits for what is never said to come")
	}
	if !acksIn(&unix.TCPInfo{Unacked: 3, Bytes_acked: 1}).Waiting {
		t.Error("nothing waits though something is not acknowledged")
	}
}
