package replica

import (
	"context"
	"errors"

	"github.com/p2pdiloco/p2pdiloco/internal/node/admission/proof"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// Keyring keeps the admission secrets of a private run's peer. The ledger names a secret by its
// commitment.
type Keyring interface {
	// Candidate is the commitment to a secret of this peer's own that nobody else knows. The secret
	// is on disk once it is proposed and held.
	Candidate() (slot.Root, error)
	// Hold gets the secret of a commitment, which is proposed, on disk, and keeps it from the peers
	// of without. It fails with an error that wraps proof.ErrShared where one of them may know it.
	Hold(ctx context.Context, key slot.Root, from []slot.PeerID, without ...slot.PeerID) error
	// Follow brings the secret in force, and shuts out the peers that may not be here any more.
	Follow(key slot.Root, standing proof.Standing) error
}

// followAccess applies what the chain says about the peers that may be in the run, and makes the
// next secret ready.
func (r *Replica) followAccess(ctx context.Context, work membership.WorkAccess, report func(membership.Report)) {
	if r.cfg.Keys == nil {
		return
	}
	var err error
	if !work.Key.IsZero() {
		err = r.cfg.Keys.Hold(ctx, work.Key, work.From)
	}
	// Removed peers are disconnected even without the secret.
	if err := errors.Join(err, r.cfg.Keys.Follow(work.Key, r.standing)); err != nil {
		r.failed(ctx, work, err, report)
		return
	}
	next, err := r.cfg.Keys.Candidate()
	if err != nil {
		r.failed(ctx, work, err, report)
		return
	}
	report(membership.ReportKey{Key: next})
}

// standing returns whether a peer was ever a member, and whether it is removed or about to be.
func (r *Replica) standing(p slot.PeerID) (ever, removed bool) {
	s := r.cfg.Ledger.Standing(p)
	return s.Ever, s.Barred
}

// holdKey gets on disk the secret that a draft puts in force, if there is one. If a peer that the
// draft removes may know the secret, holdKey makes another one ready for the next proposal.
func (r *Replica) holdKey(ctx context.Context, work membership.WorkHold, report func(membership.Report)) error {
	if work.Draft.Kind != slot.Access || r.cfg.Keys == nil {
		return nil
	}
	var removed []slot.PeerID
	for _, d := range work.Draft.Decisions {
		if d.Action == slot.Remove {
			removed = append(removed, d.Peer)
		}
	}
	err := r.cfg.Keys.Hold(ctx, work.Draft.Key, work.From, removed...)
	if errors.Is(err, proof.ErrShared) {
		if next, err := r.cfg.Keys.Candidate(); err == nil {
			report(membership.ReportKey{Key: next})
		}
	}
	return err
}
