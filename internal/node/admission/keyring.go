package admission

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/admission/proof"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
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
	if err := g.keep(g.keys.own); err != nil {
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
func (g *Guard) Follow(key slot.Root, standing proof.Standing) error {
	g.keys.Lock()
	defer g.keys.Unlock()
	changed, err := g.enforce(key)
	g.mu.Lock()
	g.mu.Standing = standing
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
		g.log.Info("the run has another admission secret now")
	}
	if g.network != nil {
		g.network.Expel(func(p slot.PeerID) bool {
			ever, removed := standing(p)
			// a peer that was admitted under the previous secret and did not become a member
			return removed || changed && !ever
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

// keep writes a secret that is not in force to disk. keys is held.
func (g *Guard) keep(s proof.Secret) error {
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
	if err := g.files.replaceSecrets(nextFile, all, before.Next()); err != nil {
		return err
	}
	if err := g.files.replaceSecrets(SecretFile, ring.Line(), before.Line()); err != nil {
		return err
	}
	g.mu.Lock()
	g.mu.Ring = ring
	g.mu.Unlock()
	if err := g.files.replaceSecrets(nextFile, ring.Next(), all); err != nil {
		// those in the other file count
		g.log.Warn("old admission secrets could not be tidied away", "err", err)
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
