package admission

import (
	"errors"
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// Doorkeeper is one peer's side of admission: what it says, and whom it believes. It is not safe for use by several goroutines at once.
type Doorkeeper struct {
	Run      string // the run's name
	Self     slot.PeerID
	Ring     Ring // empty: no secret is known yet, then Token is
	Token    *ticket.Token
	Until    uint64 // when the token expires, s since 1970
	Used     *Register
	Listed   func(slot.PeerID) bool // nil: anybody may be admitted
	Standing Standing               // nil: not known yet
}

// Standing is what the run's records say of a peer: whether it ever was a member, and whether it has been removed and not taken back.
type Standing func(slot.PeerID) (ever, removed bool)

// Ask is what to say to a peer, with the secret in force, or on later tries with older ones in turn: it may have heard of no newer. Then comes the ticket, if it
// may bring a newer one.
func (d *Doorkeeper) Ask(to slot.PeerID, try int) Ask {
	asks := d.Ring.asks()
	turns := len(asks)
	if d.Spare() {
		turns++
	}
	if turn := try % turns; turn < len(asks) {
		a := Ask{}
		a.Proof = prove(d.key(asks[turn], a), d.Self, to, a.body())
		return a
	}
	a := Ask{Token: true, ID: d.Token.ID, Expires: d.Until, Uses: d.Token.Uses}
	a.Proof = prove(d.Token.Tag, d.Self, to, a.body())
	return a
}

// Spare says whether there is a token that none of the secrets known here has made: who was let in and was no member yet when the secret was changed needs one.
func (d *Doorkeeper) Spare() bool {
	if d.Token == nil {
		return false
	}
	a := Ask{Token: true, ID: d.Token.ID, Expires: d.Until, Uses: d.Token.Uses}
	return !slices.ContainsFunc(d.Ring.line, func(s Secret) bool { return d.key(s, a) == d.Token.Tag })
}

// key is that of an ask under a secret, and of the answers to it.
func (d *Doorkeeper) key(s Secret, a Ask) [32]byte {
	if a.Token {
		return s.Tag(d.Run, a.ID, a.Expires, a.Uses)
	}
	return s.key("peer", d.Run)
}

// under is the secret and the key that something was proven with, tried one after the other whichever it is.
func (d *Doorkeeper) under(from, to slot.PeerID, a Ask) (secret Secret, key [32]byte, ok bool) {
	for _, s := range d.Ring.tried() {
		if k := d.key(s, a); proven(k, from, to, a.body(), a.Proof) {
			secret, key, ok = s, k, true
		}
	}
	return secret, key, ok
}

// Who cannot prove anything learns nothing, not even whether it knew the run's name.
var errStranger = errors.New("this peer talks to nobody without a ticket: ask a member for one")

// What peers hear that prove something, though not enough.
var (
	errNotYet  = errors.New("this peer does not know yet whose secret is in force: ask again, or another one")
	errOld     = errors.New("the run's secret has been changed since this ticket was made: ask a member for a new one (p2pdiloco invite)")
	errOldPeer = errors.New("the run's secret has been changed, and this peer never was a member: ask a member for a ticket (p2pdiloco invite)")
)

// Answer judges what a peer asks with, at a time in s since 1970.
func (d *Doorkeeper) Answer(now uint64, from slot.PeerID, a Ask) Answer {
	if d.Ring.IsZero() {
		return Answer{Refusal: "this peer is not admitted itself yet: ask another one, or again"}
	}
	secret, key, ok := d.under(from, d.Self, a)
	if !ok {
		return Answer{Refusal: errStranger.Error()}
	}
	var out Answer
	if err := d.judge(now, from, a, secret); err != nil {
		out.Refusal = err.Error()
	} else {
		out.Told = d.Used.Told()
		if a.Token {
			out.Secret = secret
		}
	}
	out.Proof = prove(key, d.Self, from, out.body())
	return out
}

// judge is about peers that are no strangers.
func (d *Doorkeeper) judge(now uint64, from slot.PeerID, a Ask, under Secret) error {
	if d.Listed != nil && !d.Listed(from) {
		return fmt.Errorf("peer %s is not on the list of those that are admitted: have its ID put there", from)
	}
	if err := d.stands(from, under, a.Token); err != nil {
		return err
	}
	if a.Token {
		return d.Used.use(now, a, from)
	}
	return nil
}

// stands holds a peer against the run's records. Whose secret is not the one in force was asleep when that changed, or has heard of the next one first, or was
// put out: only the records tell which. So a secret that never came into force admits no newcomer either: whoever was to be put out may have proposed it.
func (d *Doorkeeper) stands(p slot.PeerID, under Secret, token bool) error {
	var ever, removed bool
	if d.Standing != nil {
		ever, removed = d.Standing(p)
	}
	current := under == d.Ring.Current()
	was := slices.Contains(d.Ring.line, under)
	switch {
	case removed:
		return fmt.Errorf("peer %s was removed from the run: its members alone can take it back", p)
	case current || ever && !token:
		return nil
	case token && was:
		return errOld
	case d.Standing == nil || !was:
		return errNotYet
	}
	return errOldPeer
}

// Judge takes in what a peer answered when it was asked, nil if both have admitted each other now. Else the error is a *RefusedError.
func (d *Doorkeeper) Judge(now uint64, from slot.PeerID, asked Ask, a Answer) error {
	secret, key, known := d.under(d.Self, from, asked)
	if asked.Token {
		secret, key, known = a.Secret, d.Token.Tag, true
	}
	sure := known && proven(key, from, d.Self, a.body(), a.Proof)
	switch {
	case a.Refusal != "":
		return &RefusedError{a.Refusal, sure}
	case !sure:
		return &RefusedError{"it does not prove that it belongs to the run", false}
	case asked.Token && secret.IsZero():
		return &RefusedError{"it keeps the secret for itself", true}
	case asked.Token && d.key(secret, asked) != d.Token.Tag: // who only has the same ticket can prove that much
		return &RefusedError{"what it gives as the secret is another one than the ticket's", false}
	case d.Listed != nil && !d.Listed(from):
		return &RefusedError{"it is not on the list here", false}
	}
	before := d.Ring
	if asked.Token {
		d.Ring = d.Ring.Lead(secret)
	}
	if err := d.stands(from, secret, false); err != nil {
		d.Ring = before
		return &RefusedError{"by this peer itself: " + err.Error(), false}
	}
	d.Used.Merge(now, a.Told)
	return nil
}
