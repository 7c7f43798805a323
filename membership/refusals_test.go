package membership

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// TestGroundsAreAQuorumsPromises: a draft of a later ballot is justified by promises of a quorum
// for its height. No signer of a certificate is read twice.
func TestGroundsAreAQuorumsPromises(t *testing.T) {
	l := forkingLab(t, 4, 0)
	m := l.peers[0].m
	next := m.chain.Next()
	for name, c := range map[string]struct {
		height uint64
		names  int
		says   string
	}{
		"for another height": {next.Height + 1, 4, "did not sign"},
		"by too few":         {next.Height, 2, "2 promises, which are no quorum of 4 electors"},
		"by a quorum":        {next.Height, 3, "<nil>"},
	} {
		at := slot.Ref{Height: c.height, Prev: next.Prev, Ballot: slot.Tries}
		d := draftOf(slot.Tries, slot.Record{Height: next.Height, Prev: next.Prev}, nil)
		for _, p := range l.peers[:c.names] {
			d.Grounds.Promises = append(d.Grounds.Promises,
				wire.Promised{Peer: p.id, Incarnation: p.inc, Sig: labSigned(p, wire.Promise{Ref: at}).Sig})
		}
		err := wire.CheckProofs(d, l.rules.Run, labVerify)
		if err == nil {
			err = m.chain.CheckGrounds(d.Grounds, slot.Tries, d.Record)
		}
		if !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("promises %s: %v", name, err)
		}
	}
	commit, _ := m.Record(m.chain.LastStep())
	commit.Certificate.Signatures = slices.Insert(commit.Certificate.Signatures, 1, commit.Certificate.Signatures[0])
	r := canonical.NewReader(commit.Certificate.Append(nil))
	if slot.ReadCertificate(r); r.Err() == nil || !strings.Contains(r.Err().Error(), "order of their peers") {
		t.Errorf("a repeated signer is read: %v", r.Err())
	}
}
