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

// The length of a kind that has one is checked, and so is the index of what is no frame.
func TestHeadersOfFrames(t *testing.T) {
	for h, want := range map[header]bool{
		{kindRaw, 3, 100}: true, {kindReduced, 3, 1<<32 - 1}: true, {kindPassed, 3, 0}: true, {kindNorms, 3, 8}: true,
		{kindRoot, 0, 32}: true, {kindRoot, 1, 32}: false, {kindRoot, 0, 31}: false,
		{kindAlive, 0, 8}: true, {kindAlive, 1, 8}: false, {kindAlive, 0, 9}: false,
		{kindRefuse, 0, 1}: true, {kindRefuse, 0, 0}: false, {kindFigures, 1, 40}: false, {kindFigures, 0, 40}: true,
		{0, 0, 0}: false, {8, 3, 99}: false, {9, 3, 99}: false, {19, 0, 0}: false,
	} {
		if got, err := parseHeader(h.Append(nil)); (err == nil) != want || want && got != h {
			t.Errorf("%v: %v, %v", h, got, err)
		}
	}
}

// FuzzHello reads foreign bytes as a hello and as a header: what is taken encodes to the same.
func FuzzHello(f *testing.F) {
	f.Add(testHello().Append(nil))
	f.Add(testHello().Append(nil)[1:])
	for _, b := range [][]byte{
		header{kindRaw, 3, 4096}.Append(nil), header{kindReduced, 1<<32 - 1, 1<<32 - 1}.Append(nil),
		appendAlive(nil, 4), appendRoot(nil, testRun), appendRefuse(nil, BadValue),
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
