package nat

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/holepunch"
)

// punched remembers which connections came of holes punched.
type punched struct {
	mu struct {
		sync.Mutex
		at map[peer.ID]time.Time // newest success with a peer
	}
}

func newPunched() *punched {
	p := &punched{}
	p.mu.at = make(map[peer.ID]time.Time)
	return p
}

const maxPunched = 1024 // peers that are remembered

// Trace implements holepunch.EventTracer.
func (p *punched) Trace(e *holepunch.Event) {
	end, ok := e.Evt.(*holepunch.EndHolePunchEvt)
	if !ok || !end.Success {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.at) >= maxPunched {
		clear(p.mu.at) // a word in the status is all that hangs on it
	}
	p.mu.at[e.Remote] = time.Now()
}

// punchTime is how long before the report of a success its connection may have been opened, and how
// long after it the other side's.
const punchTime = 15 * time.Second

// made says whether a direct connection came of a hole punched.
func (p *punched) made(c network.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.mu.at[c.RemotePeer()]
	return ok && c.Stat().Opened.Sub(at).Abs() < punchTime
}
