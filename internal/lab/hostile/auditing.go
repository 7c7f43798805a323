package hostile

import (
	"bytes"
	"crypto/rand"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/node/auditor"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// badAuditor does another thing in each of three slots: it accuses everybody, asks everybody for
// everything, or passes everything without a look.
func badAuditor(l *liar) habit {
	offers := map[slot.PeerID]wire.Message{} // the newest of each peer
	accused := map[slot.PeerID]uint64{}      // in which slot
	var last wire.Message                    // that it made an accusation of
	turn := func(slotNumber uint64, what uint64) bool { return slotNumber%3 == what }
	return habit{
		hears: func(m wire.Message) bool {
			switch b := m.Body.(type) {
			case wire.Offer:
				offers[m.From] = m
			case wire.Ask:
				l.say(hollow(last, 9<<10), m.From)
			case wire.Evidence:
				return !b.Proven() // it covers up for others
			}
			return true
		},
		acts: func() {
			now := l.driver.View().Tip.Slot + 1
			for p, o := range offers {
				if turn(now, 0) && accused[p] != now {
					accused[p], last = now, o
					l.accuse(o)
					l.did("slot %d: it accuses %s", now, p.Short())
				}
			}
		},
		audits: func(opened bool, s canonical.Stream) canonical.Stream {
			now := l.driver.View().Tip.Slot + 1
			if !opened || !turn(now, 1) {
				return s
			}
			l.did("slot %d: it asks for everything", now)
			return &glutton{Stream: s, wants: slices.Collect(maps.Values(offers))}
		},
		passes: func(slotNumber uint64) bool {
			if !turn(slotNumber, 2) {
				return false
			}
			l.did("slot %d: it passes the outcome", slotNumber)
			return true
		},
	}
}

// accuse announces evidence against whoever has signed an offer: some that is as small as a proof
// may be, and some that is only named, as large evidence is.
func (l *liar) accuse(o wire.Message) {
	e := hollow(o, 500)
	l.gossip(e)
	e.Kind = wire.KindFalseOutcome
	e.First = wire.SignedBody{Body: wire.Segment{Segment: slot.Segment{Contributors: slot.NewBitmap(1)}}.Append(nil)}
	l.gossip(e)
	a := wire.Accuse{Peer: o.From, Incarnation: o.Incarnation}
	_, _ = rand.Read(a.Hash[:]) // it never fails
	l.gossip(a)
}

// hollow is evidence with a true signature, and a proof of any bytes.
func hollow(o wire.Message, size int) wire.Evidence {
	offer, _ := o.Body.(wire.Offer)
	p := audit.Proof{
		Kind: audit.FalseContribution, Offer: offer.Offer,
		Openings: []audit.Opening{{Range: slot.Range{End: 256}, Bytes: make([]byte, size)}},
	}
	_, _ = rand.Read(p.Openings[0].Bytes) // it never fails
	return wire.Evidence{
		Kind: wire.KindFalseOffer, Peer: o.From, Incarnation: o.Incarnation,
		First:  wire.SignedBody{Body: offer.Append(nil), Sig: o.Sig},
		Second: wire.SignedBody{Body: p.Append(nil)},
	}
}

// glutton is a stream on which far more is asked for than an audit needs, once the audit has asked.
type glutton struct {
	canonical.Stream
	wants []wire.Message // offers
	asked bytes.Buffer
	rest  sync.WaitGroup
}

func (g *glutton) Write(b []byte) (int, error) {
	g.asked.Write(b)
	return g.Stream.Write(b)
}

// CloseWrite asks for all the rest, while the audit reads its own answers.
func (g *glutton) CloseWrite() error {
	b, err := canonical.ReadMessage(&g.asked, 1<<10)
	if err != nil {
		return g.Stream.CloseWrite()
	}
	first, err := auditor.ReadRequest(b)
	if err != nil {
		return g.Stream.CloseWrite()
	}
	g.rest.Go(func() {
		for _, q := range g.everything(first) {
			if canonical.WriteMessage(g.Stream, q.Append(nil)) != nil {
				return
			}
		}
	})
	return nil
}

// gluttonTime bounds how long the rest takes.
const gluttonTime = 5 * time.Second

// Reset ends the audit's use of the stream; the rest goes on for a while.
func (g *glutton) Reset() error {
	_ = g.Stream.SetDeadline(time.Now().Add(gluttonTime))
	go func() {
		_, _ = io.Copy(io.Discard, g.Stream)
		g.rest.Wait()
		_ = g.Stream.Reset()
	}()
	return nil
}

// everything are requests for what is far from the audit's sample, in parts that can be shown and
// in such that cannot; of the peer at the other end, and of all others, in whose place it is to
// ask.
func (g *glutton) everything(first auditor.Request) (all []auditor.Request) {
	const part, parts = 1024, 256
	for k := range uint64(parts) {
		for _, m := range g.wants {
			q := first
			o := m.Body.(wire.Offer)
			q.Contributor, q.Root, q.Range = o.Peer, o.Root, slot.Range{Begin: k * part, End: (k + 1) * part}
			if k%2 == 1 && o.Peer != first.Contributor {
				q.Range.Begin++ // no block begins here
			}
			if k%4 == 2 {
				_, _ = rand.Read(q.Root[:]) // it never fails
			}
			all = append(all, q)
		}
	}
	return all
}
