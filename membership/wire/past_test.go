package wire

import (
	"errors"
	"reflect"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func testPast() (Past, []Commit) {
	p := Past{Floor: 5, Height: 7, Summary: []byte("a summary"), Links: [][]byte{
		linkOf(linkedRecord()).Append(nil, slot.Genesis(testRoot(1))),
		linkOf(nextRecord(), "b", "d").Append(nil, linkedRecord()),
	}}
	return p, []Commit{
		{Record: testRecord(), Certificate: testCertificateOf(testRecord())},
		{Record: testAccessRecord(), Certificate: testCertificateOf(testAccessRecord())},
	}
}

func TestPackPast(t *testing.T) {
	p, commits := testPast()
	b := PackPast(p, commits)
	got, records, err := UnpackPast(b)
	if err != nil || !reflect.DeepEqual(got, p) || !reflect.DeepEqual(records, commits) {
		t.Errorf("%v: %+v", err, got)
	}
	dec, _ := zstd.NewReader(nil)
	defer dec.Close()
	if plain, err := dec.DecodeAll(b, nil); err != nil || len(plain) != PastSize(p, commits) {
		t.Errorf("%d bytes, by PastSize %d (%v)", len(plain), PastSize(p, commits), err)
	}
	for n := range len(b) {
		if _, _, err := UnpackPast(b[:n]); !errors.Is(err, canonical.ErrMalformed) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
	}
}

// Few bytes that unpack to more than a past may have are refused before they take the memory.
func TestUnpackPastIsBounded(t *testing.T) {
	bomb := PackPast(Past{Summary: make([]byte, 2*MaxPast)}, nil)
	if _, _, err := UnpackPast(bomb); len(bomb) > 1<<20 || !errors.Is(err, canonical.ErrMalformed) {
		t.Errorf("%d bytes: %v", len(bomb), err)
	}
}

// A few bytes that unpack to millions of records or links are refused before these are made: each
// takes ten times the bytes of its encoding, at the least.
func TestUnpackPastTakesNoShortLinks(t *testing.T) {
	many := PackPast(Past{Links: make([][]byte, 1<<20)}, nil)
	if _, _, err := UnpackPast(many); len(many) > 1<<12 || !errors.Is(err, canonical.ErrMalformed) {
		t.Errorf("%d bytes of empty links: %v", len(many), err)
	}
	r := slot.Record{Kind: slot.Members}
	n, l := len(r.Append(nil))+len(slot.Certificate{}.Append(nil)), len(Link{Head: r.Head()}.Append(nil, r))
	if n < minRecord || l != leastLink {
		t.Errorf("a record of %d bytes, a link of %d", n, l)
	}
}

func FuzzUnpackPast(f *testing.F) {
	p, commits := testPast()
	f.Add(PackPast(p, commits))
	p.Links = append(p.Links, linkOf(linkedRecord(), "f").Append(nil, nextRecord()))
	f.Add(PackPast(p, nil))
	f.Fuzz(func(_ *testing.T, b []byte) {
		p, _, _ := UnpackPast(b)
		before := slot.Genesis(testRoot(1))
		for _, b := range p.Links {
			l, err := ParseLink(b, before)
			if err != nil {
				return
			}
			before = l.Head.Record
		}
	})
}
