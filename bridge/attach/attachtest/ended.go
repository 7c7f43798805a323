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

// Leave says that the rank goes, and whether the peer is to leave the run.
func (r *Rank) Leave(reason string, run bool) error {
	m := &wire.Leave{Reason: reason}
	if run {
		m.Run = 1
	}
	return r.Send(m)
}
