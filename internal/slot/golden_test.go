package slot

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// The layouts of docs/spec/ledger.md, written down by hand: bytes that were signed, sent or hashed
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
		{Range: Range{1024, 1500}, Contributors: Bitmap{0b10}, Root: fill(0xc2)},
	}
	goldenRef  = Ref{Height: 9, Prev: fill(0x22), Ballot: 1}
	goldenStep = Record{
		Run: fill(0x11), Height: 9, Kind: Step, Prev: fill(0x22), Slot: 3, StateRoot: fill(0x33),
		Members: []Member{{"a", 0x0102030405060708, 1, 1, 0}, {"bc", 2, 8, 8, 0}},
		Work:    100, Contributions: goldenOffers, Usual: 9, Segments: goldenSegments,
	}
	goldenVote = Vote{goldenRef, fill(0x44)}
	goldenPlan = Plan{
		Ref: goldenRef, Revision: 0x10001, Opened: Opening{goldenRef, 0x10000}, Slot: 3,
		Offers: goldenOffers, Usual: 7, Gone: Bitmap{2},
		Pieces: []Piece{{Range{0, 1024}, "a"}, {Range{1024, 1500}, "bc"}}, Ring: []uint16{1, 0},
	}
)

// The same as text: fields apart by spaces.
var (
	voteHex   = refHex + fillHex("44")
	refHex    = "0000000000000009 " + fillHex("22") + " 00000001 "
	offerHexA = "00000001 61 0000000000000003 0000000000000004 0000000000000002 0000000000000005 " + fillHex("aa") +
		"4000000000000000 00000032 000007d0"
	offerHexB = "00000002 6263 0000000000000003 0000000000000006 0000000000000001 0000000000000007 " + fillHex("bb") +
		"3fd0000000000000 0000000c 01020304"
	offersHex = "00000002 " + offerHexA + offerHexB
	segment0  = "0000000000000000 0000000000000400 00000001 03 " + fillHex("c1")
	segment1  = "0000000000000400 00000000000005dc 00000001 02 " + fillHex("c2")
	segsHex   = "00000002 " + segment0 + segment1
	recordHex = fillHex("11") + " 0000000000000009 02 " + fillHex("22") + " 0000000000000003 " + fillHex("33") +
		membersHex + "0000000000000064 00000000 " + outcomeHex
	outcomeHex = offersHex + " 0000000000000009 " + segsHex
	membersHex = "00000002 00000001 61 0102030405060708 0000000000000001  " +
		"00000002 6263 0000000000000002 0000000000000008"
)

type appender interface{ Append([]byte) []byte }

// reads has a function read one value of a type.
func reads[T appender](f func(*wire.Reader) T) func(*wire.Reader) appender {
	return func(r *wire.Reader) appender { return f(r) }
}

// parsed is a value with its layout and what reads it.
type parsed struct {
	name  string
	value appender
	want  string
	read  func(*wire.Reader) appender
}

func parsers() []parsed {
	readRecord := reads(ReadRecord)
	members, graded := goldenStep, goldenStep
	members.Kind, members.Contributions, members.Usual, members.Segments = Members, nil, 0, nil
	access := members
	access.Kind, access.Key = Access, fill(0x55)
	access.Decisions = []Decision{{Remove, "d", 3, []SignedMotion{{"a", 8, []byte{1, 2}}}}, {Action: Rotate}}
	graded.Members = []Member{{"a", 0x0102030405060708, 1, 4, 256}, {"bc", 2, 8, 0, 24}}
	graded.Absent = []Member{{Peer: "ab", Incarnation: 3, Since: 2, Credit: 7}}
	graded.Evicted = []PeerID{"z", "y"}
	membersRecord := strings.TrimSuffix(recordHex, "00000000 "+outcomeHex)
	return []parsed{
		{"offer", goldenOffers[1], offerHexB, reads(ReadOffer)},
		{"segment", goldenSegments[1], segment1, reads(ReadSegment)},
		{
			"plan", goldenPlan,
			refHex + "00010001" + refHex + "00010000 0000000000000003 00000000 " + offersHex +
				"0000000000000007 " +
				"00000001 02 00000002 0000000000000000 0000000000000400 00000001 61  0000000000000400 " +
				"00000000000005dc 00000002 6263 00000002 0001 0000", reads(ReadPlan),
		},
		{"step record", goldenStep, recordHex, readRecord},
		{
			"step record with seats and credits", graded,
			strings.NewReplacer(
				"09 02 ", "09 82 ", membersHex, "00000002 "+
					"00000001 61 0102030405060708 0000000000000001 0000000000000004 0100"+
					"00000002 6263 0000000000000002 0000000000000008 0000000000000000 0018"+
					"00000001 00000002 6162 0000000000000003 0000000000000002 0007"+
					"00000002 00000001 7a 00000001 79",
			).Replace(recordHex), readRecord,
		},
		{"members record", members, strings.Replace(membersRecord, "09 02 ", "09 03 ", 1), readRecord},
		{
			"access record", access, strings.Replace(membersRecord, "09 02 ", "09 04 ", 1) + fillHex("55") +
				"00000002 01 00000001 64 0000000000000003 00000001 00000001 61 0000000000000008 00000002 0102  03 " +
				"00000000 0000000000000000 00000000", readRecord,
		},
		{
			"order",
			Motion{Readmit, "bc", 3, 8},
			"02 00000002 6263 0000000000000003 0000000000000008",
			reads(ReadMotion),
		},
		{"vote", goldenVote, voteHex, reads(ReadVote)},
		{
			"certificate",
			Certificate{goldenVote, []Signature{{"a", []byte{1, 2, 3}}, {"bc", []byte{4}}}},
			voteHex + "00000002 00000001 61 00000003 010203  00000002 6263 00000001 04", reads(ReadCertificate),
		},
		{
			"layout",
			Layout{{Name: "w", Shape: []uint64{2, 3}}, {Name: "scale"}},
			"00000002 00000001 77 02 0000000000000002 0000000000000003  00000005 7363616c65 00", reads(ReadLayout),
		},
	}
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// Every value has its layout and comes back equal, and no shorter or longer bytes parse. What else
// parses is canonical, and no record with other bytes has the same hash.
func TestGoldenLayouts(t *testing.T) {
	for _, p := range parsers() {
		t.Run(p.name, func(t *testing.T) {
			b := p.value.Append(nil)
			if want := unhex(p.want); !bytes.Equal(b, want) {
				t.Errorf("the layout has changed:\n got %x\nwant %x", b, want)
			}
			if got, err := p.parse(b); err != nil || !reflect.DeepEqual(got, p.value) {
				t.Errorf("got %#v, %v\nwant %#v", got, err, p.value)
			}
			for cut := range b {
				if _, err := p.parse(b[:cut]); err == nil {
					t.Errorf("%d bytes parse like %d", cut, len(b))
				}
				for bit := range 8 {
					other := bytes.Clone(b)
					other[cut] ^= 1 << bit
					p.checkCanonical(t, other)
				}
			}
			if _, err := p.parse(append(b, 0)); err == nil {
				t.Error("a byte too many is taken")
			}
		})
	}
	got := SignedBytes(TypeVote, fill(0x11), "bc", 7, goldenVote.Append(nil))
	want := hex.EncodeToString([]byte("p2pdiloco/ledger/3-dev")) + "08 " + fillHex("11") +
		"00000002 6263 0000000000000007 " + voteHex
	if !bytes.Equal(got, unhex(want)) {
		t.Errorf("signed bytes are %x, want %s", got, want)
	}
}

func (p parsed) parse(b []byte) (appender, error) {
	r := wire.NewReader(b)
	v := p.read(r)
	return v, r.Done()
}

func (p parsed) checkCanonical(t *testing.T, b []byte) {
	t.Helper()
	v, err := p.parse(b)
	if err == nil && !bytes.Equal(v.Append(nil), b) {
		t.Fatalf("%s: %x parses to %+v, which is %x", p.name, b, v, v.Append(nil))
	}
	if c, ok := v.(Record); ok && err == nil && !bytes.Equal(b, p.value.Append(nil)) &&
		c.Hash() == p.value.(Record).Hash() {
		t.Fatalf("%x has the hash of %s", b, p.want)
	}
}

// What parses is canonical: appended again it gives the same bytes.
func FuzzParsers(f *testing.F) {
	all := parsers()
	for i, p := range all {
		f.Add(uint8(i), p.value.Append(nil))
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) { all[int(which)%len(all)].checkCanonical(t, b) })
}

// The hashes agree with another implementation of BLAKE3 over the bytes of docs/spec/ledger.md.
func TestGoldenHashes(t *testing.T) {
	data := bytes.Repeat([]byte{7}, 10)
	for _, c := range []struct {
		name, want string
		got        Root
	}{
		{"record", "51e6a74630275ef09cbb6c7166d44cbddfcbc4451594b8ffa7962030db5c2ddd", goldenStep.Hash()},
		{
			"first record of a run", "55474ad2ca444005f0eb0ea7fd9e83218a645baa83b225f3aa4a292a34ff0f50",
			Genesis(fill(0x11)).Hash(),
		},
		{"outcome", "3b0d841d4a6935d39b0a3306309049ede21a99c6b676a471ab5f6ad106c5cc91", OutcomeRoot(goldenSegments)},
		{
			"frames", "569b87f2a1e5332c4f5921381099ab086f38200bcfb16a8b3bca0888817f7bf7",
			Cut(data, 4).Root(4),
		},
		{"no frames", "8c88b19816410eb2d4c01b1b5e650f40bee9ec8cb5ab7acd2b0d5a9742077ece", FrameRoot(nil, 4, 0)},
		{
			"one frame", "6d281d3ccc61357d60b3871b6d907ebf25a80f70fa600b9e0fd88908e62908ae",
			Cut(data, 10).Root(10),
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
	for i, h := range Cut(data, 4).Hashes {
		leaves = append(leaves, FrameLeaf{float64(i) + .5, h})
	}
	return leaves
}
