package store

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func init() { testutil.OneCPU() }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var run = testRoot(1)

func testRoot(n byte) slot.Root { return slot.Hash([]byte{n}) }

// testRecord is a step with every field filled in.
func testRecord() slot.Record {
	segment := func(begin, end uint64, set byte) slot.Segment {
		return slot.Segment{
			Range: slot.Range{Begin: begin, End: end}, Contributors: slot.Bitmap{set}, Root: testRoot(5),
		}
	}
	offer := func(p slot.PeerID) slot.Offer {
		return slot.Offer{
			Peer: p, Slot: 3, Seq: 8, Base: 2, Weight: 100, Root: testRoot(4), Steps: 50, StepTime: 2000,
		}
	}
	return slot.Record{
		Run: run, Height: 7, Kind: slot.Step, Prev: testRoot(2), Slot: 3, StateRoot: testRoot(3), Work: 12,
		Members: []slot.Member{
			{Peer: "a", Incarnation: 1, Since: 1, Seat: 1},
			{Peer: "b", Incarnation: 2, Since: 4, Seat: 4},
		},
		Fragment: 1, Contributions: []slot.Offer{offer("a"), offer("b")},
		Segments: []slot.Segment{segment(0, 5, 3), segment(5, 9, 1)},
	}
}

func testCertificate() slot.Certificate {
	return slot.Certificate{
		Vote:       slot.Vote{Ref: slot.Ref{Height: 7, Prev: testRoot(2), Ballot: 2}, Hash: testRoot(6)},
		Signatures: []slot.Signature{{Peer: "a", Sig: []byte("sig a")}, {Peer: "b", Sig: []byte("sig b")}},
	}
}
