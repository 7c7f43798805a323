package replica

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/node/admission/proof"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// emptyRing is a keyring to which nobody gives a secret.
type emptyRing struct {
	err      error
	followed bool
}

func (k *emptyRing) Candidate() (slot.Root, error) { return slot.Root{1}, nil }

func (k *emptyRing) Hold(context.Context, slot.Root, []slot.PeerID, ...slot.PeerID) error {
	return k.err
}

func (k *emptyRing) Follow(slot.Root, proof.AccessOf) error {
	k.followed = true
	return nil
}

// fixedStanding is a ledger that says the same of each peer.
type fixedStanding struct {
	Ledger
	removed bool
}

func (l fixedStanding) Access(slot.PeerID) membership.PeerAccess {
	return membership.PeerAccess{Removed: l.removed}
}

// accessing is a replica with keys, and what it reports of a work.
func accessing(t *testing.T, keys *emptyRing, removed bool, do func(r *Replica, report func(membership.Report))) (
	reports []membership.Report,
) {
	r := &Replica{
		cfg: Config{Keys: keys, Ledger: fixedStanding{removed: removed}, Kept: kept},
		log: slog.New(slog.DiscardHandler),
	}
	do(r, func(report membership.Report) { reports = append(reports, report) })
	return reports
}

// Records are followed where the secret in force cannot be had, too: peers that were removed are
// put out. A peer that is removed itself does not ask for the secret again.
func TestRecordsAreFollowedWithoutTheSecret(t *testing.T) {
	for _, removed := range []bool{true, false} {
		keys := &emptyRing{err: errors.New("nobody gives it")}
		reports := accessing(t, keys, removed, func(r *Replica, report func(membership.Report)) {
			r.followAccess(t.Context(), membership.WorkAccess{Key: slot.Root{9}}, report)
		})
		if removed && len(reports) == 0 {
			continue
		}
		if failed, ok := reports[0].(membership.ReportFailed); removed || len(reports) != 1 || !ok ||
			!strings.Contains(failed.Err, keys.err.Error()) || !keys.followed {
			t.Errorf("removed %v: it reports %+v; followed: %v", removed, reports, keys.followed)
		}
	}
}

// Where the proposed secret may be known to a peer that is removed, another one is made ready.
func TestASecretThatIsSharedIsReplaced(t *testing.T) {
	reports := accessing(t, &emptyRing{err: proof.ErrShared}, false,
		func(r *Replica, report func(membership.Report)) {
			r.hold(t.Context(), membership.WorkHold{Draft: slot.Draft{Kind: slot.Access}}, report)
		})
	if len(reports) != 2 || reports[0] != membership.Report(membership.ReportKey{Key: slot.Root{1}}) {
		t.Errorf("it reports %+v", reports)
	}
}

// kept is a peer's vote log that is there.
func kept() error { return nil }
