package dial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
)

// Fault is why a peer could not be dialled, in as many words as a terminal has room for: libp2p
// says it in a line for each address, with the ID of the peer twice in front, and in other words
// for each transport.
type Fault struct {
	Peer peer.ID
	Err  error
}

func (e *Fault) Unwrap() error { return e.Err }

func (e *Fault) Error() string {
	var tried *swarm.DialError
	if !errors.As(e.Err, &tried) || len(tried.DialErrors) == 0 {
		return fmt.Sprintf("%s: %s", e.Peer, plainly(e.Err))
	}
	parts := make([]string, len(tried.DialErrors))
	for i, d := range tried.DialErrors {
		parts[i] = fmt.Sprintf("%s: %s", d.Address, plainly(d.Cause))
	}
	return strings.Join(parts, ", ")
}

// plainly is what went wrong with a dial.
func plainly(err error) string {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return errno.Error() // "connection refused", "no route to host", "network is unreachable"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		strings.Contains(err.Error(), "no recent network activity"):
		return "no answer"
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
