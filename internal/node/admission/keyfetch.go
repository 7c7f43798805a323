package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/admission/proof"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

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
		if p == g.self {
			continue
		}
		secret, err := g.askKey(ctx, key, p)
		if err == nil {
			g.keys.Lock()
			defer g.keys.Unlock()
			return g.keep(secret)
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
	s, err := g.network.Open(ctx, p, p2p.ProtocolKey)
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
	if g.mu.Standing == nil {
		return proof.Secret{}, errKeyUnsure
	}
	if ever, removed := g.mu.Standing(to); !ever || removed {
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
