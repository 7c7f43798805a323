//go:build unix

package attachtest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
)

// Held is the mark of the vector that was loaded last, and what was done since.
type Held struct {
	Mark          string
	Steps, Tokens uint64
}

// Ended is the node's last word.
type Ended struct {
	Code wire.Code
	Text string
}

func (e *Ended) Error() string { return fmt.Sprintf("error %d: %s", e.Code, e.Text) }

// mark is that of the vector that was loaded last, if the node has left one.
func (r *Rank) mark() string {
	b := r.mapped[0]
	if r.loaded == 0 || b == nil || binary.LittleEndian.Uint64(b[16:]) != r.loaded {
		return ""
	}
	return hex.EncodeToString(b[24:56])
}

// Leave says that the rank goes, and whether the peer is to leave the run.
func (r *Rank) Leave(reason string, run bool) error {
	m := &wire.Leave{Reason: reason}
	if run {
		m.Run = 1
	}
	return r.send(r.next(), m)
}
