package hostile

import (
	"bytes"
	"crypto/rand"
	"io"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/auditor"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// What glutton does.
const (
	asksForAll    = "it asks for all of a contribution, again and again"
	asksForOthers = "it asks for what others are to pass on"
	isRefused     = "it is shown no more"
)

// glutton is a stream of an audit. Once the audit has its answers, far more is asked for on it: all
// of the contribution of the peer at the other end, again and again; or, where it is passing, what
// that peer is to get from all others.
type glutton struct {
	canonical.Stream
	rules   chain.Rules
	offers  []wire.Message
	passing bool
	did     func(what string)
	asked   bytes.Buffer // by the audit
	told    sync.Once
}

func (g *glutton) Write(b []byte) (int, error) {
	g.asked.Write(b)
	return g.Stream.Write(b)
}

// CloseWrite leaves the stream open: more is asked for.
func (g *glutton) CloseWrite() error { return nil }

// gluttonTime bounds how long the rest takes.
const gluttonTime = 5 * time.Second

// Close ends the audit's use of the stream, and begins with all the rest.
func (g *glutton) Close() error {
	b, err := canonical.ReadMessage(&g.asked, 1<<10)
	if err != nil {
		return g.Stream.Close()
	}
	first, err := auditor.ReadRequest(b)
	if err != nil {
		return g.Stream.Close()
	}
	_ = g.SetDeadline(time.Now().Add(gluttonTime))
	go func() {
		defer g.Stream.Reset() //nolint:errcheck // nobody uses it any more
		_, err := io.Copy(io.Discard, g.Stream)
		if err != nil && !canonical.TimedOut(err) {
			g.did(isRefused)
		}
	}()
	go func() {
		defer g.Stream.CloseWrite() //nolint:errcheck // the other side has ended it
		if g.passing {
			g.askOthers(first)
		} else {
			g.askAll(first)
		}
	}()
	return nil
}

// gluttonElements is twice what a contributor shows one auditor of a small contribution.
const gluttonElements = 2 * (4 << 20)

// askAll asks for each frame of a contribution, until twice as much is asked for as the contributor
// shows to one auditor.
func (g *glutton) askAll(q auditor.Request) {
	most := max(gluttonElements, 2*g.rules.Elements(q.Slot))
	for n, k := uint64(0), uint64(0); n < most; n, k = n+q.Range.Len(), k+1 {
		q.Range = g.frame(q.Slot, k)
		if !g.ask(q, asksForAll) {
			return
		}
	}
}

// askOthers asks the peer at the other end for parts of everybody's contribution: in turns for such
// as it can get, for what is no part, and for contributions that nobody has offered.
func (g *glutton) askOthers(first auditor.Request) {
	const parts = 256
	for k := range uint64(parts) {
		for _, m := range g.offers {
			o := m.Body.(wire.Offer)
			if o.Peer == first.Contributor {
				continue
			}
			q := first
			q.Contributor, q.Root, q.Range = o.Peer, o.Root, g.frame(q.Slot, k)
			if k%2 == 1 {
				q.Range.Begin++ // no block begins here
			}
			if k%4 == 2 {
				_, _ = rand.Read(q.Root[:]) // it never fails
			}
			if !g.ask(q, asksForOthers) {
				return
			}
		}
	}
}

// frame is the k-th frame of a slot's fragment, the first one after the last.
func (g *glutton) frame(slotNumber, k uint64) slot.Range {
	elements, size := g.rules.Elements(slotNumber), max(1, g.rules.Frame)
	begin := k % ((elements + size - 1) / size) * size
	return slot.Range{Begin: begin, End: min(begin+size, elements)}
}

// ask asks, and tells it once that is done.
func (g *glutton) ask(q auditor.Request, what string) bool {
	if canonical.WriteMessage(g.Stream, q.Append(nil)) != nil {
		return false
	}
	g.told.Do(func() { g.did(what) })
	return true
}
