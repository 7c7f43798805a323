package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// A COMMIT that carries another record than its certificate names is refused by that name, and so
// is one that carries none in the form of one that does.
func TestACommitCarriesWhatItNames(t *testing.T) {
	good := Commit{Record: testRecord(), Certificate: testCertificateOf(testRecord())}
	for name, change := range map[string]func(r *slot.Record){
		"another record":   func(r *slot.Record) { r.StateRoot[0]++ },
		"another height":   func(r *slot.Record) { r.Height++ },
		"the first record": func(r *slot.Record) { r.Height = 0 },
	} {
		r := testRecord()
		change(&r)
		_, err := parseCarried(Commit{Certificate: good.Certificate}, r.Append([]byte{1}))
		if !errors.Is(err, canonical.ErrMalformed) || !strings.Contains(err.Error(), "another record than it names") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Both forms of a message have the signature of one.
func TestSealedInBrief(t *testing.T) {
	signer, run := newTestSigner(1), testRoot(1)
	whole := Commit{Record: testRecord(), Certificate: testCertificateOf(testRecord())}
	m, b, err := SealMessage(signer, run, 5, whole)
	if err != nil {
		t.Fatal(err)
	}
	m.Body = Commit{Certificate: whole.Certificate}
	brief := m.Sealed(run)
	got, err := Open(brief, run, testVerify)
	if c, ok := got.Body.(Commit); err != nil || !ok || !c.ByHash() || len(brief) >= len(b) {
		t.Errorf("%d bytes of %d open as %+v: %v", len(brief), len(b), got.Body, err)
	}
}
