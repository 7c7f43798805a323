package allreduce

import (
	"bytes"
	"errors"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func testHello() hello {
	return hello{
		Run: testRun, Ref: slot.Ref{Height: 7, Prev: slot.Hash([]byte("prev")), Ballot: 3}, Revision: 2,
		Group: slot.Hash([]byte("group")), Range: slot.Range{Begin: 5, End: 9}, Frames: 9,
	}
}

// A packed frame that is not shorter than the one it stands for is none. A length beyond 31 bits is
// negative as an int where that has 32: it must not pass for a short one there.
func TestHeadersOfFrames(t *testing.T) {
	for h, want := range map[header]bool{
		{kindRaw, 3, 100}: true, {kindRaw, 3, 99}: false, {kindRaw, 4, 100}: false, {kindReduced, 3, 100}: false,
		{kindPackedRaw, 3, 99}: true, {kindPackedRaw, 3, 100}: false, {kindPackedReduced, 3, 50}: false,
		{kindPackedRaw, 3, 1 << 31}: false, {kindPackedRaw, 3, 1<<32 - 1}: false, {kindRaw, 3, 1<<31 + 1}: false,
	} {
		if got := h.carries(kindRaw, 3, 100); got != want {
			t.Errorf("%v: %v", h, got)
		}
	}
	for _, kind := range []frameKind{kindPackedRaw, kindPackedReduced} {
		_, one := parseHeader(header{kind, 1, 1}.Append(nil))
		_, two := parseHeader(header{kind, 1, 2}.Append(nil))
		if one == nil || two != nil {
			t.Errorf("kind %d: %v without a payload, %v with one", kind, one, two)
		}
	}
}

// FuzzHello reads foreign bytes as a hello and as a header: what is taken encodes to the same.
func FuzzHello(f *testing.F) {
	f.Add(testHello().Append(nil))
	f.Add(testHello().Append(nil)[1:])
	for _, b := range [][]byte{
		header{kindRaw, 3, 4096}.Append(nil), header{kindReduced, 1<<32 - 1, 1<<32 - 1}.Append(nil),
		header{kindPackedRaw, 3, 99}.Append(nil), appendAlive(nil, 4), appendRoot(nil, testRun),
		appendRefuse(nil, BadValue),
	} {
		f.Add(b[:headerSize])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		said, noHello := parseHello(b)
		head, noHeader := parseHeader(b)
		if noHello == nil && !bytes.Equal(said.Append(nil), b) || noHeader == nil && !bytes.Equal(head.Append(nil), b) {
			t.Fatal("what was parsed encodes to other bytes")
		}
		for _, err := range []error{noHello, noHeader} {
			if err != nil && !errors.Is(err, wire.ErrMalformed) {
				t.Fatalf("error %v does not wrap wire.ErrMalformed", err)
			}
		}
	})
}
