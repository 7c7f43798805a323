package proof

import (
	"errors"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// Party is one peer's side of admission: what it announces, and which peers it admits. It is not
// safe for use by several goroutines at once.
type Party struct {
	Run      string // the run's name
	Self     slot.PeerID
	Ring     Ring // empty: no secret is known yet, then Token is
	Token    *ticket.Token
	Until    uint64 // when the token expires, s since 1970
	Used     *Register
	AccessOf AccessOf // nil: not known yet
}

// AccessOf is what the run's records say of a peer.
type AccessOf func(slot.PeerID) Access

// Access says whether a peer may take part.
type Access struct {
	Ever    bool   // it was a member at some time
	Removed bool   // it is removed
	Why     string // by what it was removed, and what its user can do
}

// Ask returns the message to a peer. The first try uses the secret in force. Later tries use older
// secrets in turn, since the other peer may know no newer one. The ticket comes last, if it may
// bring a newer secret.
func (d *Party) Ask(to slot.PeerID, try int) Ask {
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

// Spare says whether this peer has a token that was made with none of the secrets known here. A
// peer needs such a token if it was admitted, and was no member yet when the secret changed.
func (d *Party) Spare() bool {
	if d.Token == nil {
		return false
	}
	a := Ask{Token: true, ID: d.Token.ID, Expires: d.Until, Uses: d.Token.Uses}
	return !slices.ContainsFunc(d.Ring.line, func(s Secret) bool { return d.key(s, a) == d.Token.Tag })
}

// key returns the key of an Ask under a secret, and of the answers to it.
func (d *Party) key(s Secret, a Ask) [32]byte {
	if a.Token {
		return s.Tag(d.Run, a.ID, a.Expires, a.Uses)
	}
	return s.key("peer", d.Run)
}

// under returns the secret and the key of a proof. It tries all of them, whichever fits.
func (d *Party) under(from, to slot.PeerID, a Ask) (secret Secret, key [32]byte, ok bool) {
	for _, s := range d.Ring.tried() {
		if k := d.key(s, a); proven(k, from, to, a.body(), a.Proof) {
			secret, key, ok = s, k, true
		}
	}
	return secret, key, ok
}

// A peer that cannot prove anything learns nothing, not even whether it knew the run's name.
var errStranger = errors.New("this peer talks to nobody without a ticket: ask a member for one")

// These are the reasons that peers get if they prove something, but not enough.
var (
	errNotYet = errors.New("this peer does not know yet whose secret is in force: ask again, or another one")
	errOld    = errors.New("the run's secret has been changed since this ticket was made: ask a member for a new " +
		"one (p2pdiloco invite)")
	errOldPeer = errors.New("the run's secret has been changed, and this peer never was a member: ask a member for a " +
		"ticket (p2pdiloco invite)")
)

// Answer judges a peer's Ask, at a time in s since 1970.
func (d *Party) Answer(now uint64, from slot.PeerID, a Ask) Answer {
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

// judge decides about a peer that has given a valid proof.
func (d *Party) judge(now uint64, from slot.PeerID, a Ask, under Secret) error {
	if err := d.checkAccess(from, under, a.Token); err != nil {
		return err
	}
	if a.Token {
		return d.Used.use(now, a, from)
	}
	return nil
}

// checkAccess compares a peer with the run's records. A peer with a secret that is not in force was
// away when the secret changed, or has learned of the next one first, or was removed: only the
// records tell which. A secret that never came into force admits no newcomer either, because a peer
// that was to be removed may have proposed it.
func (d *Party) checkAccess(p slot.PeerID, under Secret, token bool) error {
	var at Access
	if d.AccessOf != nil {
		at = d.AccessOf(p)
	}
	current := under == d.Ring.Current()
	was := slices.Contains(d.Ring.line, under)
	switch {
	case at.Removed:
		return errors.New(at.Why)
	case current || at.Ever && !token:
		return nil
	case token && was:
		return errOld
	case d.AccessOf == nil || !was:
		return errNotYet
	}
	return errOldPeer
}

// Judge takes in a peer's answer to an Ask. It returns nil if both have admitted each other now,
// else a *RefusedError.
func (d *Party) Judge(now uint64, from slot.PeerID, asked Ask, a Answer) error {
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
	case asked.Token && d.key(secret, asked) != d.Token.Tag:
		// a peer that only has the same ticket can prove that much
		return &RefusedError{"what it gives as the secret is another one than the ticket's", false}
	}
	before := d.Ring
	if asked.Token {
		d.Ring = d.Ring.Lead(secret)
	}
	if err := d.checkAccess(from, secret, false); err != nil {
		d.Ring = before
		return &RefusedError{"by this peer itself: " + err.Error(), false}
	}
	d.Used.Merge(now, a.Told)
	return nil
}
