package slot

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// The layouts of docs/protocol.md, written down by hand: bytes that were signed, sent or hashed
// once must not change. A test that fails here says that the wire format has changed, and with it
// protocol versions and domains.

func fill(b byte) (r Root) { copy(r[:], bytes.Repeat([]byte{b}, len(r))); return r }

func fillHex(b string) string { return strings.Repeat(b, 32) }

// Two contributors of slot 3; the second one's inner steps began a slot earlier.
var (
	goldenOffers = []Offer{
		{Peer: "a", Slot: 3, Seq: 4, Base: 2, Weight: 5, Root: fill(0xaa), NormSq: 2, Steps: 50, StepTime: 2000},
		{
			Peer: "bc", Slot: 3, Seq: 6, Base: 1, Weight: 7, Root: fill(0xbb), NormSq: .25, Steps: 12,
			StepTime: 0x01020304,
		},
	}
	goldenSegments = []Segment{
		{Range: Range{0, 1024}, Contributors: Bitmap{0b11}, Root: fill(0xc1)},
		{Range: Range{1024, 1500}, Contributors: Bitmap{0b10}, Against: Bitmap{1}, Root: fill(0xc2)},
	}
	goldenRef  = Ref{Height: 9, Prev: fill(0x22), Ballot: 1}
	goldenStep = Record{
		Run: fill(0x11), Height: 9, Kind: Step, Prev: fill(0x22), Slot: 3, StateRoot: fill(0x33),
		Members: []Member{{"a", 0x0102030405060708, 1, 1, 0}, {"bc", 2, 8, 8, 0}},
		Work:    100, Contributions: goldenOffers, Usual: 9, Segments: goldenSegments,
	}
)

// The same as text: fields apart by spaces.
var (
	refHex    = "0000000000000009 " + fillHex("22") + " 00000001 "
	offerHexA = "00000001 61 0000000000000003 0000000000000004 0000000000000002 0000000000000005 " + fillHex("aa") +
		"4000000000000000 00000032 000007d0"
	offerHexB = "00000002 6263 0000000000000003 0000000000000006 0000000000000001 0000000000000007 " + fillHex("bb") +
		"3fd0000000000000 0000000c 01020304"
	offersHex = "00000002 " + offerHexA + offerHexB
	segment0  = "0000000000000000 0000000000000400 00000001 03 00000000 " + fillHex("c1")
	segment1  = "0000000000000400 00000000000005dc 00000001 02 00000001 01 " + fillHex("c2")
	segsHex   = "00000002 " + segment0 + segment1
	recordHex = fillHex("11") + " 0000000000000009 02 " + fillHex("22") + " 0000000000000003 " + fillHex("33") +
		membersHex + "0000000000000064 00000000 " + outcomeHex
	outcomeHex = offersHex + " 0000000000000009 " + segsHex
	membersHex = "00000002 00000001 61 0102030405060708 0000000000000001  " +
		"00000002 6263 0000000000000002 0000000000000008"
)

func TestGoldenLayouts(t *testing.T) {
	members := goldenStep
	members.Kind, members.Contributions, members.Usual, members.Segments = Members, nil, 0, nil
	access := members
	access.Kind, access.Key = Access, fill(0x55)
	access.Decisions = []Decision{{Remove, "d", 3, []SignedMotion{{"a", 8, []byte{1, 2}}}}, {Action: Rotate}}
	graded := goldenStep
	graded.Members = []Member{{"a", 0x0102030405060708, 1, 4, 256}, {"bc", 2, 8, 0, 24}}
	graded.Absent = []Member{{Peer: "ab", Incarnation: 3, Since: 2, Credit: 7}}
	graded.Evicted = []PeerID{"z", "y"}
	vote := Vote{goldenRef, fill(0x44)}
	voteHex := refHex + fillHex("44")
	plan := Plan{
		Ref: goldenRef, Revision: 0x10001, Opened: Opening{goldenRef, 0x10000}, Slot: 3, Offers: goldenOffers,
		Usual:  7,
		Gone:   Bitmap{2},
		Pieces: []Piece{{Range{0, 1024}, "a"}, {Range{1024, 1500}, "bc"}},
		Ring:   []uint16{1, 0},
	}
	layout := Layout{{Name: "w", Shape: []uint64{2, 3}}, {Name: "scale"}}
	certificate := Certificate{vote, []Signature{{"a", []byte{1, 2, 3}}, {"bc", []byte{4}}}}
	cases := []struct {
		name string
		got  []byte
		want string
		read func(*wire.Reader) []byte // parses and encodes again
	}{
		{
			"offer", goldenOffers[1].Append(nil), offerHexB,
			func(r *wire.Reader) []byte { return ReadOffer(r).Append(nil) },
		},
		{
			"segment", goldenSegments[1].Append(nil), segment1,
			func(r *wire.Reader) []byte { return ReadSegment(r).Append(nil) },
		},
		{
			"plan", plan.Append(nil),
			refHex + "00010001" + refHex + "00010000 0000000000000003 00000000 " + offersHex +
				"0000000000000007 " +
				"00000001 02 00000002 0000000000000000 0000000000000400 00000001 61  0000000000000400 " +
				"00000000000005dc 00000002 6263 00000002 0001 0000",
			func(r *wire.Reader) []byte { return ReadPlan(r).Append(nil) },
		},
		{
			"step record", goldenStep.Append(nil), recordHex,
			func(r *wire.Reader) []byte { return ReadRecord(r).Append(nil) },
		},
		{
			"step record with seats and credits", graded.Append(nil),
			strings.NewReplacer(
				"09 02 ", "09 82 ", membersHex, "00000002 "+
					"00000001 61 0102030405060708 0000000000000001 0000000000000004 0100"+
					"00000002 6263 0000000000000002 0000000000000008 0000000000000000 0018"+
					"00000001 00000002 6162 0000000000000003 0000000000000002 0007"+
					"00000002 00000001 7a 00000001 79",
			).Replace(recordHex),
			func(r *wire.Reader) []byte { return ReadRecord(r).Append(nil) },
		},
		{
			"members record", members.Append(nil),
			strings.Replace(strings.TrimSuffix(recordHex, "00000000 "+outcomeHex), "09 02 ", "09 03 ", 1),
			func(r *wire.Reader) []byte { return ReadRecord(r).Append(nil) },
		},
		{
			"access record", access.Append(nil),
			strings.Replace(strings.TrimSuffix(recordHex, "00000000 "+outcomeHex), "09 02 ", "09 04 ", 1) +
				fillHex("55") +
				"00000002 01 00000001 64 0000000000000003 00000001 00000001 61 0000000000000008 00000002 0102  03 " +
				"00000000 0000000000000000 00000000",
			func(r *wire.Reader) []byte { return ReadRecord(r).Append(nil) },
		},
		{
			"order", Motion{Readmit, "bc", 3, 8}.Append(nil), "02 00000002 6263 0000000000000003 0000000000000008",
			func(r *wire.Reader) []byte { return ReadMotion(r).Append(nil) },
		},
		{"vote", vote.Append(nil), voteHex, func(r *wire.Reader) []byte { return ReadVote(r).Append(nil) }},
		{
			"certificate", certificate.Append(nil),
			voteHex + "00000002 00000001 61 00000003 010203  00000002 6263 00000001 04",
			func(r *wire.Reader) []byte { return ReadCertificate(r).Append(nil) },
		},
		{
			"layout", layout.Append(nil),
			"00000002 00000001 77 02 0000000000000002 0000000000000003  00000005 7363616c65 00",
			func(r *wire.Reader) []byte { return ReadLayout(r).Append(nil) },
		},
		{
			"signed bytes", SignedBytes(TypeVote, fill(0x11), "bc", 7, vote.Append(nil)),
			hex.EncodeToString([]byte("p2pdiloco/ledger/2")) + "08 " + fillHex("11") +
				"00000002 6263 0000000000000007 " + voteHex, nil,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			want := strings.ReplaceAll(c.want, " ", "")
			if got := hex.EncodeToString(c.got); got != want {
				t.Errorf("the layout has changed:\n got %s\nwant %s", got, want)
			}
			if c.read == nil {
				return
			}
			r := wire.NewReader(c.got)
			again := c.read(r)
			if err := r.Done(); err != nil || !bytes.Equal(again, c.got) {
				t.Errorf("read and written again: %x, %v", again, err)
			}
		})
	}
}

// The hashes agree with another implementation of BLAKE3 over the bytes that docs/protocol.md says.
func TestGoldenHashes(t *testing.T) {
	data := bytes.Repeat([]byte{7}, 10)
	for _, c := range []struct {
		name, want string
		got        Root
	}{
		{"record", "9b4401ac50a12193d92e11d22b34580df90f5d123ff1da80541e162e1d93357c", goldenStep.Hash()},
		{
			"first record of a run", "55474ad2ca444005f0eb0ea7fd9e83218a645baa83b225f3aa4a292a34ff0f50",
			Genesis(fill(0x11)).Hash(),
		},
		{"outcome", "436a9fbf40d9bd40f79adb4ad062c8ca7399bea8adb26254ff3e8d2bd00b2797", OutcomeRoot(goldenSegments)},
		{
			"frames", "569b87f2a1e5332c4f5921381099ab086f38200bcfb16a8b3bca0888817f7bf7",
			FrameRoot(FrameHashes(data, 4), 4, uint64(len(data))),
		},
		{"no frames", "8c88b19816410eb2d4c01b1b5e650f40bee9ec8cb5ab7acd2b0d5a9742077ece", FrameRoot(nil, 4, 0)},
		{
			"one frame", "6d281d3ccc61357d60b3871b6d907ebf25a80f70fa600b9e0fd88908e62908ae",
			FrameRoot(FrameHashes(data, 10), 10, uint64(len(data))),
		},
		{
			"contribution of ada with norms .5, 1.5, 2.5",
			"17b661a7dd82c3769bd2f9ce34475a5211908b0948560793d0e84d41681e9458",
			ContributionRoot("ada", goldenLeaves(data), 4, uint64(len(data))),
		},
	} {
		if got := c.got.String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func goldenLeaves(data []byte) (leaves []FrameLeaf) {
	for i, h := range FrameHashes(data, 4) {
		leaves = append(leaves, FrameLeaf{float64(i) + .5, h})
	}
	return leaves
}

func TestGoldenLeaderOrder(t *testing.T) {
	var got strings.Builder
	for _, m := range LeaderOrder(fill(0x22), 7, members("abcdef")) {
		got.WriteString(string(m.Peer))
	}
	if want := "acedfb"; got.String() != want {
		t.Errorf("ballots are led in the order %s, want %s", got.String(), want)
	}
}

func TestGoldenNumbers(t *testing.T) {
	types := []MessageType{
		TypeOffer, TypePlan, TypeSegment, TypeLost, TypeDraft, TypeHave, TypePropose, TypeVote, TypeCommit,
		TypeRetry, TypePromise, TypeBeat, TypeAlive, TypeJoin, TypeLeave, TypeNeed, TypeFork, TypeEvidence,
		TypeMotion, TypeForkDraft,
	}
	for i, typ := range types {
		if int(typ) != i+1 {
			t.Errorf("message type %d stands for what %d did", typ, i+1)
		}
	}
	if TypeStatement != 21 || TypeRetired != 22 || TypeNotYet != 23 {
		t.Error("message types have other numbers")
	}
	if Fork != 1 || Step != 2 || Members != 3 || Access != 4 {
		t.Error("kinds of records have other numbers")
	}
	if Remove != 1 || Readmit != 2 || Rotate != 3 {
		t.Error("actions have other numbers")
	}
}
