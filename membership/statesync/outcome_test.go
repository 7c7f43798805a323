package statesync

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

var outcomeSizes = []int{5_000_001, 1, testFrame, 2*testFrame + 7, 3_000_000}

func TestFetchOutcome(t *testing.T) {
	for name, bad := range map[string]func(wire.Stream, []byte) (int, error){
		"honest": nil, "lying": lying,
		"dying": dying, "stalling": stalling,
	} {
		bubble(t, name, func(t *testing.T) {
			s := newStore(t, testShape)
			blobs, data := putOutcome(t, s, outcomeSizes...)
			n := &peers{serve: serves{
				"a": source(t, s, slow),
				"b": source(t, s, slow),
			}}
			if bad != nil {
				n.serve["b"] = faulty(server(t, s, slow), 200_000, bad)
			}
			n.serve["empty"] = source(t, newStore(t, testShape), slow)
			got, report, err := n.outcome(t, Config{}, blobs...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range data {
				if !bytes.Equal(got[i], data[i]) {
					t.Fatalf("segment %d differs", i)
				}
			}
			if _, named := badOf(report, "b"); named != (bad != nil) || len(report.Sources) != 2 && bad == nil {
				t.Fatalf("report %+v", report)
			}
		})
	}
}

// Segments come from memory, too, each from a peer that has it.
func TestFetchOutcomeLoose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blobs, data := putOutcome(t, newStore(t, testShape), outcomeSizes...)
		lends := func(i int) func(wire.Stream) {
			return honest(server(t, newStore(t, testShape), ServerConfig{Loose: func(root slot.Root) *Loan {
				if root == blobs[i].Root {
					return Lend(slot.Cut(data[i], testFrame), testFrame)
				}
				return nil
			}}))
		}
		n := &peers{serve: serves{}}
		for i, id := range []slot.PeerID{"a", "b", "c", "d", "e"} {
			n.serve[id] = lends(i)
		}
		for i, b := range blobs {
			got, _, err := n.outcome(t, Config{}, b)
			if err != nil || !bytes.Equal(got[0], data[i]) {
				t.Errorf("segment %d differs, or %v", i, err)
			}
		}
	})
}

func TestFetchOutcomeNobodyHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, testShape)
		blobs, _ := putOutcome(t, s, 100, 200)
		n := &peers{serve: serves{"a": source(t, s, free)}}
		nobody := &peers{}
		for _, b := range [][]Blob{{blobs[0], {slot.Root{1}, 5}}, {{blobs[0].Root, 101}}} {
			if _, _, err := n.outcome(t, Config{}, b...); !errors.Is(err, ErrNoDonor) {
				t.Fatalf("error %v", err)
			}
		}
		if _, _, err := n.outcome(t, Config{}, Blob{slot.Root{1}, 0}); err == nil {
			t.Fatal("an empty segment has any root")
		}
		if _, _, err := nobody.outcome(t, Config{}, blobs...); !errors.Is(err, ErrNoDonor) {
			t.Fatalf("error %v", err)
		}
		got, _, err := nobody.outcome(t, Config{}, Blob{slot.FrameRoot(nil, testFrame, 0), 0})
		if err != nil || len(got) != 1 || len(got[0]) != 0 {
			t.Fatalf("an empty segment: %v", err)
		}
	})
}

// requests counts a stream's requests by type.
type requests struct {
	wire.Stream
	count map[requestType]int
}

func (r *requests) Read(b []byte) (int, error) {
	n, err := r.Stream.Read(b)
	if n == requestSize {
		r.count[requestType(b[4])]++
	}
	return n, err
}

// The hashes of a segment's frames travel once, however many requests it takes.
func TestHashesOfASegmentTravelOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, testShape)
		blobs, data := putOutcome(t, s, 5*outcomePiece, 3*outcomePiece)
		v, count := server(t, s, free), map[requestType]int{}
		n := &peers{serve: serves{"a": func(st wire.Stream) {
			v.Serve("client", &requests{st, count})
		}}}
		got, _, err := n.outcome(t, Config{Streams: 1}, blobs...)
		if err != nil || !bytes.Equal(got[0], data[0]) || !bytes.Equal(got[1], data[1]) {
			t.Fatal(err)
		}
		if count[askFrames] != 2 || count[askFramesOnly] != 6 {
			t.Fatalf("requests %v", count)
		}
	})
}

// A lent segment is hashed once. A request of a few bytes cost the lender a hash of all of it, 100
// MB and more, each time, before anything was paced.
func TestALentSegmentIsHashedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blobs, data := putOutcome(t, newStore(t, testShape), 10*testFrame)
		loan := Lend(slot.Cut(data[0], testFrame), testFrame)
		n := &peers{serve: serves{
			"a": honest(server(t, newStore(t, testShape), ServerConfig{Loose: func(slot.Root) *Loan { return loan }})),
		}}
		d := NewClient(n, Config{}).dial
		for range 2 {
			c, err := d.dial(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			b := &blob{root: blobs[0].Root, size: blobs[0].Size, frameBytes: testFrame}
			if _, err := c.frames(make([]byte, testFrame), b, 0, 1); err != nil {
				t.Errorf("hashed again: %v", err)
			}
			c.close(nil)
			data[0][5*testFrame] ^= 1 // hashed again, the segment would have another root
		}
		n.wg.Wait()
	})
}
