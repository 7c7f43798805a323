package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func testKept(height uint64, ballot uint32) EntryGrounds {
	ref := testRef()
	ref.Height, ref.Ballot = height, ballot
	return EntryGrounds{Ref: ref, Promises: testGrounds().Promises}
}

func TestGroundsRoundTrip(t *testing.T) {
	want := []Entry{testKept(7, 2), EntryGrounds{Ref: testRef()}}
	var b []byte
	for _, e := range want {
		b = AppendEntry(b, e)
	}
	if got, err := ParseEntries(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
	}
	e := testKept(7, 2)
	before := AppendEntry(nil, e)
	eachField(reflect.ValueOf(&e).Elem(), "", func(name string) {
		if bytes.Equal(AppendEntry(nil, e), before) {
			t.Errorf("%s is not encoded", name)
		}
	})
	slices.Reverse(e.Promises)
	if _, err := ParseEntries(AppendEntry(nil, e)); !errors.Is(err, canonical.ErrMalformed) {
		t.Errorf("promises out of order: %v", err)
	}
}

// What is kept is bounded at one position, in all, and in bytes; the newest stays.
func TestKeptGroundsAreBounded(t *testing.T) {
	var k KeptGrounds
	for b := range uint32(3 * maxGroundsAt) {
		k = k.Add(testKept(7, b))
		k = k.Add(testKept(7, b))
	}
	if at := k.At(Position{7, testRef().Prev}); len(at) != 16 || at[0].Ballot != 32 || at[15].Ballot != 47 {
		t.Errorf("of one position %d are kept", len(at))
	}
	for h := range uint64(2 * maxGrounds) {
		k = k.Add(testKept(h, 1))
	}
	if len(k) != 512 || k[511].Height != 2*maxGrounds-1 {
		t.Errorf("%d are kept in all", len(k))
	}
	large := testKept(7, 1)
	large.Promises = nil
	for range slot.MaxMembers {
		large.Promises = append(large.Promises, Promised{Peer: "a", Sig: make([]byte, slot.MaxSigLen)})
	}
	for h := range uint64(300) {
		large.Height = h
		k = k.Add(large)
	}
	bytes := 0
	for _, e := range k {
		bytes += len(AppendEntry(nil, e))
	}
	if bytes > 8<<20 || k[len(k)-1].Height != 299 {
		t.Errorf("%d bytes are kept", bytes)
	}
	if n := len(k.Prune(k[0].Height + GroundsSpan)); n != len(k) {
		t.Errorf("%d of %d are kept after some heights", n, len(k))
	}
	if n := len(k.Prune(k[0].Height + GroundsSpan + 1)); n != len(k)-1 {
		t.Errorf("%d of %d are kept one height later", n, len(k))
	}
	if k.Prune(1000) != nil {
		t.Error("some are kept for ever")
	}
}

// The bytes of kept grounds, and of evidence of a vote and a promise, do not change.
func TestGoldenLocks(t *testing.T) {
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"entry": {AppendEntry(nil, EntryGrounds{
			Ref: slot.Ref{Height: 7, Prev: testRoot(2), Ballot: 9},
			Promises: []Promised{
				{Peer: "a", Incarnation: 1, Lock: &Lock{Ballot: 8, Hash: testRoot(6)}, Sig: []byte("sig a")},
				{Peer: "b", Incarnation: 2, Sig: []byte("sig b")},
			},
		}), "0a000000820000000000000007ab13bedf42e84bae0f7c62c7dd6a8ada571e8829bed6ea558217f0361b5e25" +
			"d000000009000000020000000161000000000000000101000000081c310b6bdadd69991cd4e5dbef96c26385" +
			"36c32b534e3ed64785846bfcebd2060000000573696720610000000162000000000000000200000000057369" +
			"672062"},
		"evidence": {Evidence{
			Kind: slot.TypePromise, Peer: "a", Incarnation: 5,
			First:  SignedBody{Body: Vote{testVote()}.Append(nil), Sig: []byte("signed")},
			Second: SignedBody{Body: Promise{Ref: testRef()}.Append(nil), Sig: []byte("too")},
		}.Append(nil), "0b000000016100000000000000050000004c0000000000000007ab13bedf42e84bae0f7c62c7dd6a8ada571e" +
			"8829bed6ea558217f0361b5e25d0000000021c310b6bdadd69991cd4e5dbef96c2638536c32b534e3ed64785" +
			"846bfcebd206000000067369676e65640000002d0000000000000007ab13bedf42e84bae0f7c62c7dd6a8ada" +
			"571e8829bed6ea558217f0361b5e25d0000000020000000003746f6f"},
	} {
		if got := hex.EncodeToString(c.b); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}
