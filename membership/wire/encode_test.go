package wire

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func testRoot(n byte) slot.Root { return slot.Hash([]byte{n}) }

func testRecord() slot.Record {
	return slot.Record{
		Run: testRoot(1), Height: 7, Kind: slot.Step, Prev: testRoot(2), Slot: 3, StateRoot: testRoot(3), Work: 12,
		Members: []slot.Member{
			{Peer: "a", Incarnation: 1, Since: 1, Seat: 1},
			{Peer: "b", Incarnation: 2, Since: 4, Seat: 4},
		},
		Fragment: 1, Contributions: []slot.Offer{testOffer("a"), testOffer("b")},
		Segments: []slot.Segment{testSegment(0, 5, 3), testSegment(5, 9, 1)},
	}
}

func testOffer(p slot.PeerID) slot.Offer {
	return slot.Offer{Peer: p, Slot: 3, Seq: 8, Base: 2, Weight: 100, Root: testRoot(4), Steps: 50, StepTime: 2000}
}

func testSegment(begin, end uint64, set byte) slot.Segment {
	return slot.Segment{Range: slot.Range{Begin: begin, End: end}, Contributors: slot.Bitmap{set}, Root: testRoot(5)}
}

func testMembersRecord() slot.Record {
	c := testRecord()
	c.Kind, c.Fragment, c.Contributions, c.Segments = slot.Members, 0, nil, nil
	return c
}

func testDecisions() []slot.Decision {
	return []slot.Decision{
		{
			Action: slot.Remove, Peer: "c", Turn: 2,
			Motions: []slot.SignedMotion{
				{Peer: "a", From: 5, Sig: []byte("sig a")},
				{Peer: "b", From: 6, Sig: []byte("sig b")},
			},
		},
		{Action: slot.Rotate, Turn: 1, Motions: []slot.SignedMotion{{Peer: "a", From: 5, Sig: []byte("sig")}}},
	}
}

func testAccessRecord() slot.Record {
	c := testMembersRecord()
	c.Kind, c.Key, c.Decisions = slot.Access, testRoot(10), testDecisions()
	return c
}

func testRef() slot.Ref { return slot.Ref{Height: 7, Prev: testRoot(2), Ballot: 2} }

func testVote() slot.Vote { return slot.Vote{Ref: testRef(), Hash: testRoot(6)} }

func testCertificate() slot.Certificate {
	return slot.Certificate{
		Vote:       testVote(),
		Signatures: []slot.Signature{{Peer: "a", Sig: []byte("sig a")}, {Peer: "b", Sig: []byte("sig b")}},
	}
}

func testCertificateOf(r slot.Record) slot.Certificate {
	c := testCertificate()
	c.Hash = r.Hash()
	return c
}

func testProofs() []OfferProof {
	return []OfferProof{{Incarnation: 1, Sig: []byte("offer a")}, {Incarnation: 2, Sig: []byte("offer b")}}
}

func testQC(ballot uint32, hash slot.Root) *QC {
	return &QC{Ballot: ballot, Hash: hash, Haves: []SignedHave{
		{Peer: "a", Incarnation: 1, Ballot: ballot, Sig: []byte("have a")},
		{Peer: "b", Incarnation: 2, Ballot: 0, Sig: []byte("have b")},
		{Peer: "b", Incarnation: 3, Ballot: ballot, Sig: []byte("have c")},
	}}
}

func testGrounds() Grounds {
	return Grounds{
		Promises: []Promised{
			{Peer: "a", Incarnation: 1, Lock: &Lock{Ballot: 1, Hash: testRecord().Hash()}, Sig: []byte("promise a")},
			{Peer: "b", Incarnation: 2, Sig: []byte("promise b")},
		},
		QC: testQC(1, testRecord().Hash()),
	}
}

// carriedBy is what a body carries beside its signed bytes.
func carriedBy(body Body) []byte {
	if c, ok := body.(carrier); ok {
		return c.appendCarried(nil)
	}
	return nil
}

// testDraftByPlan is a draft to a peer that was sent the plan.
func testDraftByPlan() Draft {
	d := Draft{
		Vote:    slot.Vote{Ref: testRef(), Hash: testRecord().Hash()},
		Drafted: Drafted{Record: testRecord(), Attached: testAttachments(), Grounds: testGrounds()},
	}
	d.Grounds.QC = nil
	return d.Brief(testRoot(11), slot.Bitmap{3})
}

// testBodies has every type of message, every field filled in.
func testBodies() []Body {
	ref := testRef()
	return []Body{
		Offer{Offer: testOffer("a")},
		Plan{Plan: slot.Plan{
			Ref: ref, Revision: 1, Slot: 3, Fragment: 1, Offers: []slot.Offer{testOffer("a"), testOffer("b")},
			Gone: slot.Bitmap{2}, Ring: []uint16{1, 0},
			Pieces: []slot.Piece{
				{Range: slot.Range{End: 5}, Owner: "a"},
				{Range: slot.Range{Begin: 5, End: 9}, Owner: "b"},
			},
		}, Proofs: testProofs()},
		Segment{ref, slot.Root{7}, testRoot(6), testSegment(5, 9, 3)},
		Lost{Ref: ref, Group: slot.Root{7}, Peer: "b", Reason: LostBadValue, Round: testRoot(8)},
		Draft{
			Vote: slot.Vote{Ref: ref, Hash: testRecord().Hash()},
			Drafted: Drafted{
				Record: testRecord(), Proofs: testProofs(), Attached: testAttachments(), Owners: testOwners(),
				Grounds: testGrounds(),
			},
		},
		Draft{Vote: slot.Vote{Ref: ref, Hash: testAccessRecord().Hash()}, Drafted: Drafted{Record: testAccessRecord()}},
		testDraftByPlan(),
		Have{Vote: testVote()},
		Propose{Vote: testVote(), QC: testQC(ref.Ballot, testVote().Hash)},
		ForkDraft{Ballot: 2, Record: testMembersRecord()},
		Vote{Vote: testVote()},
		ForkVote{Vote: testVote()},
		Commit{Record: testRecord(), Certificate: testCertificateOf(testRecord())},
		Commit{Record: testMembersRecord(), Certificate: testCertificateOf(testMembersRecord())},
		Commit{Record: testAccessRecord(), Certificate: testCertificateOf(testAccessRecord())},
		Commit{Certificate: testCertificate()},
		Retry{Ref: ref},
		Promise{
			Ref: ref, Lock: &Lock{Ballot: 1, Hash: testRecord().Hash()},
			Locked: &Locked{QC: *testQC(1, testRecord().Hash()), Record: testRecord(), Proofs: testProofs()},
		},
		Promise{Ref: ref, Lock: &Lock{Ballot: 1, Hash: testRoot(6)}},
		Promise{Ref: ref},
		Beat{Ref: ref, Revision: 1, Offers: 2, Bytes: 3, Haves: 4, Votes: 5, Segments: 6},
		Alive{
			Branch: testRoot(8), Height: 7, Tip: testRoot(9), Work: 12, Applied: 6, Synced: true, Slot: 2,
			Contributes: true, Steps: 17, Reaches: []slot.PeerID{"a", "b"},
			Links: []slot.Link{slot.LinkDirect, slot.Link(40).Way(true)}, Uplink: 50, Apart: []slot.PeerID{"c"},
			Claims: []byte("claims"),
		},
		Join{Contributes: true},
		Leave{Since: 5},
		Need{From: 4},
		Motion{Motion: slot.Motion{Action: slot.Remove, Peer: "c", Turn: 2, From: 5}},
		Motion{Motion: slot.Motion{Action: slot.Rotate, From: 5}},
		Evidence{
			Kind: slot.TypeVote, Peer: "a", Incarnation: 5,
			First:  SignedBody{Body: []byte("one"), Sig: []byte("signed")},
			Second: SignedBody{Body: []byte("two"), Sig: []byte("too")},
		},
		Evidence{
			Kind: KindFalseOutcome, Peer: "a", Incarnation: 5,
			First: SignedBody{
				Body: Segment{Ref: ref, Inputs: testRoot(6), Segment: testSegment(5, 9, 3)}.Append(nil),
				Sig:  []byte("signed"),
			},
			Second: SignedBody{Body: []byte("a proof"), Sig: []byte{}},
		},
		Evidence{
			Kind: KindFalseOffer, Peer: "a", Incarnation: 5,
			First:  SignedBody{Body: Offer{Offer: testOffer("a")}.Append(nil), Sig: []byte("signed")},
			Second: SignedBody{Body: []byte("a proof"), Sig: []byte{}},
		},
		Statement{Position: Position{7, testRoot(2)}, Unheard: slot.Bitmap{2}, Mute: slot.Bitmap{4}},
		Retired{Old: 3},
		Accuse{Peer: "a", Incarnation: 3, Hash: testRoot(8)},
		Ask{testRoot(9)},
	}
}

// The bytes of every message, as a hash where there are many.
func TestGoldenMessages(t *testing.T) {
	var text strings.Builder
	for _, body := range testBodies() {
		b := mustSeal(t, newTestSigner(1), testRoot(1), 42, body)
		shown := fmt.Sprintf("%x", b)
		if len(b) > 1<<10 {
			shown = slot.Hash(b).String()
		}
		fmt.Fprintf(&text, "%s, %d bytes: %s\n", TypeName(body.Type()), len(b), shown)
	}
	testutil.Golden(t, "testdata/golden.txt", text.String())
}

func TestBodiesRoundTrip(t *testing.T) {
	seen := map[slot.MessageType]bool{}
	for _, want := range testBodies() {
		seen[want.Type()] = true
		b, carried := want.Append(nil), carriedBy(want)
		got, err := ParseBody(want.Type(), b)
		if err == nil {
			got, err = parseCarried(got, carried)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", TypeName(want.Type()), err, got, want)
		}
		if !bytes.Equal(want.Append([]byte("before")), append([]byte("before"), b...)) {
			t.Errorf("%s: Append does not append", TypeName(want.Type()))
		}
		for n := range len(b) {
			if _, err := ParseBody(want.Type(), b[:n]); !errors.Is(err, canonical.ErrMalformed) {
				t.Fatalf("%s cut to %d of %d bytes: %v", TypeName(want.Type()), n, len(b), err)
			}
		}
		for n := range len(carried) {
			if _, err := parseCarried(want, carried[:n]); !errors.Is(err, canonical.ErrMalformed) {
				t.Fatalf("%s with %d of %d carried bytes: %v", TypeName(want.Type()), n, len(carried), err)
			}
		}
		if _, err := parseCarried(want, append(carried, 0)); !errors.Is(err, canonical.ErrMalformed) {
			t.Errorf("%s carries a byte too many: %v", TypeName(want.Type()), err)
		}
		if _, err := ParseBody(want.Type(), append(b, 0)); !errors.Is(err, canonical.ErrMalformed) {
			t.Errorf("%s with a byte too many: %v", TypeName(want.Type()), err)
		}
	}
	for typ := slot.TypeOffer; typ <= slot.TypeAsk; typ++ {
		if used := !strings.HasPrefix(TypeName(typ), "type "); used && !seen[typ] {
			t.Errorf("%s is not tested", TypeName(typ))
		}
	}
	for _, typ := range []slot.MessageType{0, 23, 255} {
		if _, err := ParseBody(typ, nil); !errors.Is(err, canonical.ErrMalformed) {
			t.Errorf("type %d: %v", typ, err)
		}
	}
}

// Claims have a bound, and their length is that of what follows. The ledger does not look at them.
func TestClaimsOfAnAliveAreBounded(t *testing.T) {
	alive := func(claims []byte) []byte { return Alive{Claims: claims}.Append(nil) }
	for _, b := range [][]byte{nil, []byte("<script>\x1b[2J\u202e"), make([]byte, MaxClaims)} {
		body, err := ParseBody(slot.TypeAlive, alive(b))
		if err != nil || !bytes.Equal(body.(Alive).Claims, b) {
			t.Errorf("%q came back as %+v, %v", b, body, err)
		}
	}
	long := alive(make([]byte, MaxClaims))
	at := len(long) - MaxClaims - 2
	for name, b := range map[string][]byte{
		"too long": alive(make([]byte, MaxClaims+1)), "1 MB": alive(make([]byte, 1<<20)),
		"a length below":     slices.Concat(long[:at], []byte{0, 255}, long[at+2:]),
		"a length above":     slices.Concat(long[:at], []byte{1, 1}, long[at+2:]),
		"all bits of length": slices.Concat(long[:at], []byte{255, 255}, long[at+2:]),
		"no length":          long[:at],
	} {
		if _, err := ParseBody(slot.TypeAlive, b); !errors.Is(err, canonical.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A field that is not in the encoding is not signed: each must change it.
func TestEveryFieldIsEncoded(t *testing.T) {
	for _, body := range testBodies() {
		v := reflect.New(reflect.TypeOf(body)).Elem()
		v.Set(reflect.ValueOf(body))
		whole := func(b Body) []byte { return append(b.Append(nil), carriedBy(b)...) }
		before := whole(body)
		eachField(v, "", func(name string) {
			if bytes.Equal(whole(v.Interface().(Body)), before) {
				t.Errorf("%T%s is not encoded", body, name)
			}
		})
	}
}

// eachField changes one leaf of v after the other, calls f, and changes it back.
func eachField(v reflect.Value, name string, f func(string)) {
	switch v.Kind() {
	case reflect.Struct:
		if r, ok := v.Interface().(slot.Record); ok && r.Height == 0 {
			return // it is left out
		}
		for i := range v.NumField() {
			field := v.Type().Field(i).Name
			if kind := kindOf(v.Interface()); kind != 0 && kind != slot.Step &&
				(field == "Fragment" || field == "Contributions" || field == "Segments" || field == "Usual") ||
				kind != 0 && kind != slot.Access && (field == "Key" || field == "Decisions") {
				continue // of records of another kind
			}
			eachField(v.Field(i), name+"."+field, f)
		}
		return
	case reflect.Pointer:
		if !v.IsNil() {
			eachField(v.Elem(), name, f)
		}
		return
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			eachField(v.Index(i), name+"[]", f)
		}
		return
	}
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	default:
		v.SetUint(v.Uint() + 1)
	}
	f(name)
	v.Set(old)
}

// kindOf is the kind of a record; 0 of anything else.
func kindOf(v any) slot.Kind {
	if r, ok := v.(slot.Record); ok {
		return r.Kind
	}
	return 0
}

func FuzzParseBody(f *testing.F) {
	for _, b := range testBodies() {
		f.Add(uint8(b.Type()), b.Append(nil))
	}
	f.Fuzz(func(t *testing.T, typ uint8, b []byte) {
		body, err := ParseBody(slot.MessageType(typ), b)
		switch {
		case err == nil && !bytes.Equal(body.Append(nil), b):
			t.Fatalf("%x parses to %+v, which is %x", b, body, body.Append(nil))
		case err == nil && body.Type() != slot.MessageType(typ):
			t.Fatalf("type %d parses to a %T", typ, body)
		case err != nil && !errors.Is(err, canonical.ErrMalformed):
			t.Fatalf("%v is not ErrMalformed", err)
		}
	})
}

// FuzzParseCarried reads what anybody may put beside a body that it has signed.
func FuzzParseCarried(f *testing.F) {
	for _, b := range testBodies() {
		f.Add(uint8(b.Type()), b.Append(nil), carriedBy(b))
	}
	f.Fuzz(func(t *testing.T, typ uint8, signed, carried []byte) {
		body, err := ParseBody(slot.MessageType(typ), signed)
		if err != nil {
			return
		}
		switch whole, err := parseCarried(body, carried); {
		case err == nil && !bytes.Equal(carriedBy(whole), carried):
			t.Fatalf("%x parses to %+v, which carries %x", carried, whole, carriedBy(whole))
		case err == nil && !bytes.Equal(whole.Append(nil), signed):
			t.Fatalf("what is carried changes what is signed: %x to %x", signed, whole.Append(nil))
		case err != nil && !errors.Is(err, canonical.ErrMalformed):
			t.Fatalf("%v is not ErrMalformed", err)
		}
	})
}

func testOwners() Owners {
	return Owners{Group: testRoot(40), Stated: []SignedSegment{
		{Peer: "a", Incarnation: 1, Contributors: slot.Bitmap{3}, Sig: []byte("a's")},
		{Peer: "b", Incarnation: 2, Contributors: slot.Bitmap{1}, Sig: []byte("b's")},
	}}
}
