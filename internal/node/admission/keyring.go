package admission

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/admission/proof"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

var errKeyNotHeld = errors.New("the run's new admission secret is not held here")

// Candidate returns the commitment to a secret that this peer has made and that a record may put in
// force. It returns the same one until that is proposed. The secret is written to disk only then
// (keepOwn); otherwise each start of the peer would leave one more there. It is not given to other
// peers earlier either, since only the proposal shows which peers must not get it. So nothing is
// lost if the process ends before.
func (g *Guard) Candidate() (slot.Root, error) {
	g.keys.Lock()
	defer g.keys.Unlock()
	if g.keys.own.IsZero() {
		secret, err := proof.NewSecret(rand.Reader)
		if err != nil {
			return slot.Root{}, err
		}
		g.keys.own = secret
	}
	return g.keys.own.Commitment(g.runID()), nil
}

// keepOwn writes the candidate to disk if it is the proposed secret of this commitment. The next
// candidate is another secret.
func (g *Guard) keepOwn(key slot.Root) error {
	g.keys.Lock()
	defer g.keys.Unlock()
	if g.keys.own.IsZero() || g.keys.own.Commitment(g.runID()) != key {
		return nil
	}
	if err := g.store(g.keys.own); err != nil {
		return err
	}
	g.keys.own = proof.Secret{}
	return nil
}

// Holds says whether the secret of a commitment is on disk here.
func (g *Guard) Holds(key slot.Root) bool {
	_, ok := g.held(key)
	return ok
}

func (g *Guard) held(key slot.Root) (proof.Secret, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.Ring.Find(g.mu.run, key)
}

// Follow puts the secret that the newest record names in force, and disconnects peers that may not
// be here any more. The error wraps errKeyNotHeld if the secret is not held. Then only the removed
// peers are disconnected, and nothing else changes.
func (g *Guard) Follow(key slot.Root, accessOf proof.AccessOf) error {
	g.keys.Lock()
	defer g.keys.Unlock()
	changed, err := g.enforce(key)
	g.mu.Lock()
	g.mu.AccessOf = accessOf
	if changed {
		clear(g.mu.refusals.tries)
		maps.DeleteFunc(g.mu.withheld, func(k slot.Root, _ []slot.PeerID) bool {
			_, held := g.mu.Ring.Find(g.mu.run, k)
			return !held || g.mu.Ring.InForce(g.mu.run, k)
		})
	}
	g.mu.Unlock()
	if changed {
		g.places.Set(g.rendezvous()...)
		g.cfg.Logger.Info("the run has another admission secret now")
	}
	if g.cfg.Network != nil {
		g.cfg.Network.Expel(func(p slot.PeerID) bool {
			at := accessOf(p)
			// a peer that was admitted under the previous secret and did not become a member
			return at.Removed || changed && !at.Ever
		})
	}
	return err
}

// enforce makes the secret of a commitment the current one. It is written to disk first. keys is
// held.
func (g *Guard) enforce(key slot.Root) (changed bool, err error) {
	secret, ok := g.held(key)
	if !ok {
		return false, fmt.Errorf("%w: %s", errKeyNotHeld, key.Short())
	}
	ring := g.ring()
	if secret == ring.Current() {
		return false, nil
	}
	err = g.write(ring.Enforce(secret))
	return err == nil, err
}

// store writes a secret that is not in force to disk. keys is held.
func (g *Guard) store(s proof.Secret) error {
	ring, err := g.ring().With(s)
	if err != nil {
		return err
	}
	return g.write(ring)
}

// write writes a ring to disk before it is used. keys is held. At every moment each secret is in
// one of the two files.
func (g *Guard) write(ring proof.Ring) error {
	before := g.ring()
	all := before.Next()
	for _, s := range ring.Next() {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	if err := g.cfg.Files.replaceSecrets(nextFile, all, before.Next()); err != nil {
		return err
	}
	if err := g.cfg.Files.replaceSecrets(SecretFile, ring.Line(), before.Line()); err != nil {
		return err
	}
	g.mu.Lock()
	g.mu.Ring = ring
	g.mu.Unlock()
	if err := g.cfg.Files.replaceSecrets(nextFile, ring.Next(), all); err != nil {
		// those in the other file count
		g.cfg.Logger.Warn("old admission secrets could not be tidied away", "err", err)
	}
	return nil
}

func (g *Guard) ring() proof.Ring {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.Ring
}

func (g *Guard) runID() slot.Root {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.run
}

// keyTimeout bounds the time to fetch a secret from one peer, and to give it to one.
const keyTimeout = 10 * time.Second

// Hold returns nil when the proposed secret of a commitment is on disk here. A secret that this
// peer neither holds nor has made is fetched from the named peers in turn. Until it is in force, it
// is passed on to all members except those in without, which the record removes. If the secret was
// proposed before and one of those peers could get it then, the error is proof.ErrShared.
func (g *Guard) Hold(ctx context.Context, key slot.Root, from []slot.PeerID, without ...slot.PeerID) error {
	if err := g.keepOwn(key); err != nil {
		return err
	}
	if !g.Holds(key) {
		if err := g.fetchKey(ctx, key, from); err != nil {
			return err
		}
	}
	return g.withhold(key, without)
}

// withhold sets which peers do not get a secret that is not in force.
func (g *Guard) withhold(key slot.Root, from []slot.PeerID) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.Ring.InForce(g.mu.run, key) {
		return nil
	}
	before, proposed := g.mu.withheld[key]
	if !proposed {
		g.mu.withheld[key] = slices.Clone(from)
		return nil
	}
	for _, p := range from {
		if !slices.Contains(before, p) {
			return proof.ErrShared
		}
	}
	return nil
}

// maxKeyErrors bounds how many failed peers an error names.
const maxKeyErrors = 4

func (g *Guard) fetchKey(ctx context.Context, key slot.Root, from []slot.PeerID) error {
	errs := []error{fmt.Errorf("%w: %s", errKeyNotHeld, key.Short())}
	for _, p := range from {
		if p == g.cfg.Self {
			continue
		}
		secret, err := g.askKey(ctx, key, p)
		if err == nil {
			g.keys.Lock()
			defer g.keys.Unlock()
			return g.store(secret)
		}
		if len(errs) <= maxKeyErrors {
			errs = append(errs, fmt.Errorf("from %s: %w", p.Short(), err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// askKey asks one peer for a secret.
func (g *Guard) askKey(ctx context.Context, key slot.Root, p slot.PeerID) (proof.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, keyTimeout)
	defer cancel()
	s, err := g.cfg.Network.Open(ctx, p, p2p.ProtocolKey)
	if err != nil {
		return proof.Secret{}, err
	}
	defer s.Reset() //nolint:errcheck // everything wanted has been read
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	if err := errors.Join(wire.WriteMessage(s, key[:]), s.CloseWrite()); err != nil {
		return proof.Secret{}, err
	}
	b, err := wire.ReadMessage(s, proof.MaxKeyAnswer)
	if err != nil {
		return proof.Secret{}, err
	}
	return proof.ParseKeyAnswer(b, g.runID(), key)
}

// ServeKey is the other side of askKey. The gate has admitted the peer.
func (g *Guard) ServeKey(from slot.PeerID, s wire.Stream) {
	_ = s.SetDeadline(time.Now().Add(keyTimeout))
	b, err := wire.ReadMessage(s, len(slot.Root{}))
	if err != nil || len(b) != len(slot.Root{}) {
		_ = s.Reset()
		return
	}
	secret, err := g.give(from, slot.Root(b))
	if err := wire.WriteMessage(s, proof.AppendKeyAnswer(nil, secret, err)); err != nil {
		_ = s.Reset()
	}
}

// Why a peer is not given a secret.
var (
	errKeyUnsure  = errors.New("this peer does not know yet who are members: ask again, or another one")
	errKeyMembers = errors.New("secrets are for those that are or were members")
	errKeyUnknown = errors.New("this peer does not hold that secret")
)

// give returns the secret that a peer asks for by its commitment. A secret that is not in force yet
// goes only to peers that stay members: a peer that is to be removed could come back with it under
// another identity.
func (g *Guard) give(to slot.PeerID, key slot.Root) (proof.Secret, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.AccessOf == nil {
		return proof.Secret{}, errKeyUnsure
	}
	if at := g.mu.AccessOf(to); !at.Ever || at.Removed {
		return proof.Secret{}, errKeyMembers
	}
	secret, ok := g.mu.Ring.Find(g.mu.run, key)
	if !ok {
		return proof.Secret{}, errKeyUnknown
	}
	without, said := g.mu.withheld[key]
	if !g.mu.Ring.InForce(g.mu.run, key) && (!said || slices.Contains(without, to)) {
		// since a restart this peer does not know which peers must not get it
		return proof.Secret{}, errKeyUnknown
	}
	return secret, nil
}
