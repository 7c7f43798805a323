package membership

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// effects collects what the parts of the machine want done, in the order in which they ask for it.
// The parts only write to it.
type effects struct {
	Ready
	facts *facts // the chain whose newest record events about peers name
}

// drain takes out what was collected.
func (e *effects) drain() Ready {
	out := e.Ready
	e.Ready = Ready{}
	return out
}

func (e *effects) persist(entry wire.Entry) { e.Persist = append(e.Persist, entry) }

func (e *effects) work(w Work) { e.Work = append(e.Work, w) }

func (e *effects) event(v Event) { e.Events = append(e.Events, v) }

// send goes directly to the peers named. This peer may be one of them.
func (e *effects) send(body wire.Body, to ...slot.PeerID) {
	if len(to) > 0 {
		e.Send = append(e.Send, wire.Envelope{To: to, Body: body})
	}
}

// gossip goes to everybody, and directly to the peers named.
func (e *effects) gossip(body wire.Body, to ...slot.PeerID) {
	e.Send = append(e.Send, wire.Envelope{To: to, Gossip: true, Body: body})
}

// sendForms sends a body of which some peers get the brief form.
func (e *effects) sendForms(out wire.Envelope) { e.Send = append(e.Send, out) }

func (e *effects) reportRecord(kind EventKind, r slot.Record, ballot uint32) {
	e.event(Event{
		Kind: kind, Height: r.Height, Slot: r.Slot, Ballot: ballot, RecordKind: r.Kind, Record: r.Hash(), Prev: r.Prev,
		State: r.StateRoot, Electors: len(r.Electors()),
	})
}

// reportPeer reports something of a peer, for people and, in a word, for programs.
func (e *effects) reportPeer(kind EventKind, why Reason, p slot.PeerID, detail string) {
	e.event(Event{
		Kind: kind, Height: e.facts.chain.Height(), Slot: e.facts.chain.Tip().Slot, Peer: p, Reason: why,
		Detail: detail,
	})
}
