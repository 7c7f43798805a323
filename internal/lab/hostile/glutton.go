package hostile

import (
	"bytes"
	"crypto/rand"
	"io"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/auditor"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
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
			g.did("it is shown no more")
		}
	}()
	go func() {
		defer g.Stream.CloseWrite() //nolint:errcheck // the other side has ended it
		g.askMore(first)
	}()
	return nil
}

// gluttonElements is twice what a contributor shows one auditor of a small contribution.
const gluttonElements = 2 * (4 << 20)

// askMore asks for each frame of a contribution, until twice as much is asked for as the
// contributor shows to one auditor. Where it is passing these are parts of everybody else's
// contribution: in turns such as the other end can get, what is no part, and contributions that
// nobody has offered.
func (g *glutton) askMore(q auditor.Request) {
	others := slices.DeleteFunc(slices.Clone(g.offers), func(m wire.Message) bool { return m.From == q.Contributor })
	elements, size := g.rules.Elements(q.Slot), max(1, g.rules.Frame)
	frames := (elements + size - 1) / size
	g.did(map[bool]string{
		false: "it asks for all of a contribution, again and again", true: "it asks for what others are to pass on",
	}[g.passing])
	for k := range max(gluttonElements, 2*elements) / size {
		begin := k % frames * size
		q.Range = slot.Range{Begin: begin, End: min(begin+size, elements)}
		if n := uint64(len(others)); g.passing && n > 0 {
			o := others[k%n].Body.(wire.Offer)
			if q.Contributor, q.Root = o.Peer, o.Root; k/n%2 == 1 {
				q.Range.Begin++ // no block begins here
			}
			if k/n%4 == 2 {
				_, _ = rand.Read(q.Root[:]) // it never fails
			}
		}
		if canonical.WriteMessage(g.Stream, q.Append(nil)) != nil {
			return
		}
	}
}
