package admission

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// Doorkeeper is one peer's side of admission: what it says, and whom it believes. It is not safe for use by several goroutines at once.
type Doorkeeper struct {
	Run    string // the run's name
	Self   slot.PeerID
	Secret Secret // zero: not known yet, then Token is
	Token  *ticket.Token
	Until  uint64 // when the token expires, s since 1970
	Used   *Register
	Listed func(slot.PeerID) bool // nil: anybody may be admitted
}

// Ask is what to say to a peer.
func (d *Doorkeeper) Ask(to slot.PeerID) Ask {
	var a Ask
	if d.Secret.IsZero() {
		a = Ask{Token: true, ID: d.Token.ID, Expires: d.Until, Uses: d.Token.Uses}
	}
	a.Proof = prove(d.key(a), d.Self, to, a.body())
	return a
}

// key is the key of this peer's own asking and of the answers to that.
func (d *Doorkeeper) key(a Ask) [32]byte {
	if a.Token {
		return d.Token.Tag
	}
	return d.Secret.key("peer", d.Run)
}

// Who cannot prove anything learns nothing, not even whether it knew the run's name.
var errStranger = fmt.Errorf("this peer talks to nobody without a ticket: ask a member for one")

// Answer judges what a peer asks with, at a time in s since 1970.
func (d *Doorkeeper) Answer(now uint64, from slot.PeerID, a Ask) Answer {
	if d.Secret.IsZero() {
		return Answer{Refusal: "this peer is not admitted itself yet: ask another one, or again"}
	}
	key := d.Secret.key("peer", d.Run)
	if a.Token {
		key = d.Secret.Tag(d.Run, a.ID, a.Expires, a.Uses)
	}
	if !proven(key, from, d.Self, a.body(), a.Proof) {
		return Answer{Refusal: errStranger.Error()}
	}
	var out Answer
	if err := d.judge(now, from, a); err != nil {
		out.Refusal = err.Error()
	} else {
		out.Told = d.Used.Told()
		if a.Token {
			out.Secret = d.Secret
		}
	}
	out.Proof = prove(key, d.Self, from, out.body())
	return out
}

// judge is about peers that are no strangers.
func (d *Doorkeeper) judge(now uint64, from slot.PeerID, a Ask) error {
	if d.Listed != nil && !d.Listed(from) {
		return fmt.Errorf("peer %s is not on the list of those that are admitted: have its ID put there", from)
	}
	if a.Token {
		return d.Used.use(now, a, from)
	}
	return nil
}

// Judge takes in what a peer answered when it was asked, nil if both have admitted each other now. Else the error is a *RefusedError.
func (d *Doorkeeper) Judge(now uint64, from slot.PeerID, asked Ask, a Answer) error {
	sure := proven(d.key(asked), from, d.Self, a.body(), a.Proof)
	switch {
	case a.Refusal != "":
		return &RefusedError{a.Refusal, sure}
	case !sure:
		return &RefusedError{"it does not prove that it belongs to the run", false}
	case asked.Token && a.Secret.IsZero():
		return &RefusedError{"it keeps the secret for itself", true}
	case asked.Token && a.Secret.Tag(d.Run, asked.ID, asked.Expires, asked.Uses) != d.Token.Tag: // who only has the same ticket can prove that much
		return &RefusedError{"what it gives as the secret is another one than the ticket's", false}
	case d.Listed != nil && !d.Listed(from):
		return &RefusedError{"it is not on the list here", false}
	}
	if d.Secret.IsZero() {
		d.Secret = a.Secret
	}
	d.Used.Merge(now, a.Told)
	return nil
}
