//go:build unix

package attachtest

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
)

// Ended is the node's last word.
type Ended struct {
	Code wire.Code
	Text string
}

func (e *Ended) Error() string { return fmt.Sprintf("error %d: %s", e.Code, e.Text) }

// Leave says that the rank goes, and with 1 that the peer is to leave the run.
func (r *Rank) Leave(reason string, run uint64) error {
	return r.Send(&wire.Leave{Reason: reason, Run: run})
}
