package wire

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// The layout of docs/spec/ledger.md, written down by hand, of both forms of a COMMIT: they have the
// same signed bytes.
func TestGoldenCommit(t *testing.T) {
	r := slot.Record{Run: slot.Root{0x11}, Height: 9, Kind: slot.Members, Prev: slot.Root{0x22}}
	whole := Commit{Record: r, Certificate: slot.Certificate{
		Vote:       slot.Vote{Ref: slot.Ref{Height: 9, Prev: slot.Root{0x22}, Ballot: 1}, Hash: slot.Root{0x44}},
		Signatures: []slot.Signature{{Peer: "a", Sig: []byte{0xdd}}},
	}}
	byHash := Commit{Certificate: whole.Certificate}
	zeros := func(n int) string { return strings.Repeat("00", n) }
	signed := "0000000000000009 22" + zeros(31) + " 00000001 44" + zeros(31) + " 00000001 00000001 61 00000001 dd"
	for what, c := range map[string]struct {
		got  []byte
		want string
	}{
		"signed":               {whole.Append(nil), signed},
		"signed, by hash":      {byHash.Append(nil), signed},
		"carried":              {whole.appendCarried(nil), "01" + hex.EncodeToString(r.Append(nil))},
		"carried, if by hash":  {byHash.appendCarried(nil), "00"},
		"of the golden record": {r.Append(nil)[:41], "11" + zeros(31) + " 0000000000000009 03"},
	} {
		if got, want := hex.EncodeToString(c.got), strings.ReplaceAll(c.want, " ", ""); got != want {
			t.Errorf("%s bytes:\n%s, want\n%s", what, got, want)
		}
	}
}

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

// The layout of docs/spec/ledger.md, by hand, of what a draft carries to a peer that was
// sent the plan.
func TestGoldenDraftByPlan(t *testing.T) {
	d := Draft{Drafted: Drafted{Record: slot.Record{
		Run: slot.Root{0x11}, Height: 9, Kind: slot.Step, Contributions: []slot.Offer{testOffer("a")},
		Segments: []slot.Segment{{
			Range: slot.Range{End: 5}, Contributors: slot.Bitmap{1}, Root: slot.Root{0x55},
		}},
	}}}
	d = d.Brief(slot.Root{0x33}, slot.Bitmap{2})
	zeros := func(n int) string { return strings.Repeat("00", n) }
	want := "01 33" + zeros(31) + " 00000001 02 00000001 " + zeros(8) +
		"0000000000000005 00000001 01 55" + zeros(31) +
		hex.EncodeToString(d.Drafted.append(nil))
	if got := hex.EncodeToString(d.appendCarried(nil)); got != strings.ReplaceAll(want, " ", "") {
		t.Errorf("carried bytes:\n%s, want\n%s", got, want)
	}
	if got := hex.EncodeToString((Draft{}).appendCarried(nil)); !strings.HasPrefix(got, "00") {
		t.Errorf("a whole draft begins with %s", got[:2])
	}
}
