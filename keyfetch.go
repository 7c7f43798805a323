package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// errKeyShared is of a secret that was proposed before when others were to have it than now.
var errKeyShared = errors.New("the admission secret may be known to a peer from which it is to be kept: another one is needed")

// holdKey returns nil when the secret of a commitment, which is proposed, is on disk here. Where it is not, and is not this peer's own either, it is fetched
// from the peers named, in turn, that may have it. It is given on to all members but those of without, whom the record removes, until it is in force. If it was proposed before without that, the
// error is errKeyShared.
func (d *doorman) holdKey(ctx context.Context, key Root, from []PeerID, without ...PeerID) error {
	if err := d.keepOwn(key); err != nil {
		return err
	}
	if !d.holds(key) {
		if err := d.fetchKey(ctx, key, from); err != nil {
			return err
		}
	}
	return d.withhold(key, without)
}

// withhold says from whom a secret is kept that is not in force.
func (d *doorman) withhold(key Root, from []PeerID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.Ring.InForce(d.mu.run, key) {
		return nil
	}
	before, proposed := d.mu.withheld[key]
	if !proposed {
		d.mu.withheld[key] = slices.Clone(from)
		return nil
	}
	for _, p := range from {
		if !slices.Contains(before, p) {
			return errKeyShared
		}
	}
	return nil
}

// maxKeyErrors bounds what is told of peers that did not give a secret.
const maxKeyErrors = 4

func (d *doorman) fetchKey(ctx context.Context, key Root, from []PeerID) error {
	errs := []error{fmt.Errorf("%w: %s", errKeyNotHeld, key.Short())}
	for _, p := range from {
		if d.isSelf(p) {
			continue
		}
		secret, err := d.askKey(ctx, key, p)
		if err == nil {
			d.keys.Lock()
			defer d.keys.Unlock()
			return d.keep(secret)
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
func (d *doorman) askKey(ctx context.Context, key Root, p PeerID) (admission.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, keyTimeout)
	defer cancel()
	s, err := d.gate.Open(ctx, p, p2p.ProtocolKey)
	if err != nil {
		return admission.Secret{}, err
	}
	defer s.Reset() //nolint:errcheck // everything wanted has been read
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	if err := errors.Join(wire.WriteMessage(s, key[:]), s.CloseWrite()); err != nil {
		return admission.Secret{}, err
	}
	b, err := wire.ReadMessage(s, admission.MaxKeyAnswer)
	if err != nil {
		return admission.Secret{}, err
	}
	return admission.ParseKeyAnswer(b, d.runID(), key)
}

// serveKey is the other side of askKey; the gate has let the peer in.
func (d *doorman) serveKey(from PeerID, s wire.Stream) {
	_ = s.SetDeadline(time.Now().Add(keyTimeout))
	b, err := wire.ReadMessage(s, len(Root{}))
	if err != nil || len(b) != len(Root{}) {
		_ = s.Reset()
		return
	}
	secret, err := d.give(from, Root(b))
	if err := wire.WriteMessage(s, admission.AppendKeyAnswer(nil, secret, err)); err != nil {
		_ = s.Reset()
	}
}

// Why a peer is not given a secret.
var (
	errKeyUnsure  = errors.New("this peer does not know yet who are members: ask again, or another one")
	errKeyMembers = errors.New("secrets are for those that are or were members")
	errKeyUnknown = errors.New("this peer does not hold that secret")
)

// give is the secret that a peer asks for by its commitment. One that is not in force yet goes only to those that will be here when it is: who is to be
// removed would come back with it under another name.
func (d *doorman) give(to PeerID, key Root) (admission.Secret, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.Standing == nil {
		return admission.Secret{}, errKeyUnsure
	}
	if ever, removed := d.mu.Standing(to); !ever || removed {
		return admission.Secret{}, errKeyMembers
	}
	secret, ok := d.mu.Ring.Find(d.mu.run, key)
	if !ok {
		return admission.Secret{}, errKeyUnknown
	}
	without, said := d.mu.withheld[key]
	if !d.mu.Ring.InForce(d.mu.run, key) && (!said || slices.Contains(without, to)) {
		return admission.Secret{}, errKeyUnknown // since a restart it is not known from whom it is kept
	}
	return secret, nil
}
