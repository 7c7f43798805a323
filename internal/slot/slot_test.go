package slot

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Generators of values as the canonical form has them: sorted, adjacent, bitmaps that fit.

func genRoot(t *rapid.T) (r Root) {
	copy(r[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "root"))
	return r
}

func genPeers(t *rapid.T, lo, hi int) []PeerID {
	raw := rapid.SliceOfNDistinct(rapid.StringOfN(rapid.RuneFrom([]rune("abcxyz")), 1, 6, -1), lo, hi,
		rapid.ID[string]).Draw(t, "peers")
	slices.Sort(raw)
	peers := make([]PeerID, len(raw))
	for i, p := range raw {
		peers[i] = PeerID(p)
	}
	return peers
}

func genOffers(t *rapid.T) []Offer {
	os := []Offer{}
	for _, p := range genPeers(t, 0, 11) {
		u := rapid.Uint64()
		os = append(os, Offer{
			p, u.Draw(t, "slot"), u.Draw(t, "seq"), u.Draw(t, "base"), u.Draw(t, "weight"), genRoot(t),
			rapid.Float64Range(0, math.MaxFloat64).Draw(t, "norm"),
			rapid.Uint32().Draw(t, "steps"), rapid.Uint32().Draw(t, "step time"),
		})
	}
	return os
}

func genRanges(t *rapid.T) []Range {
	cuts := rapid.SliceOfN(rapid.Uint64(), 0, 5).Draw(t, "cuts")
	slices.Sort(cuts)
	var rs []Range
	for i := 1; i < len(cuts); i++ {
		rs = append(rs, Range{cuts[i-1], cuts[i]})
	}
	return rs
}

func genBitmap(t *rapid.T, n int) Bitmap {
	m := NewBitmap(n)
	for i := range n {
		if rapid.Bool().Draw(t, "in") {
			m.Set(i)
		}
	}
	return m
}

func genSegments(t *rapid.T, n int) []Segment {
	ss := []Segment{}
	for _, r := range genRanges(t) {
		s := Segment{Range: r, Contributors: genBitmap(t, n), Root: genRoot(t)}
		if against := genBitmap(t, s.Contributors.Count()); against.Count() > 0 {
			s.Against = against
		}
		ss = append(ss, s)
	}
	return ss
}

func genRef(t *rapid.T) Ref {
	return Ref{rapid.Uint64().Draw(t, "height"), genRoot(t), rapid.Uint32().Draw(t, "ballot")}
}

func genPlan(t *rapid.T) Plan {
	p := Plan{
		Ref: genRef(t), Revision: rapid.Uint32().Draw(t, "revision"), Slot: rapid.Uint64().Draw(t, "slot"),
		Offers: genOffers(t), Usual: rapid.Uint64().Draw(t, "usual"), Pieces: []Piece{},
	}
	p.Opened = Opening{genRef(t), rapid.Uint32().Draw(t, "opening revision")}
	p.Gone = genBitmap(t, len(p.Offers))
	for _, r := range genRanges(t) {
		p.Pieces = append(p.Pieces, Piece{r, genPeers(t, 1, 1)[0]})
	}
	if rapid.Bool().Draw(t, "ring") {
		p.Ring = genRing(t, len(p.Offers))
	}
	return p
}

func genRing(t *rapid.T, n int) (ring []uint16) {
	for i := range n {
		ring = append(ring, uint16(i))
	}
	if n == 0 {
		return nil
	}
	return rapid.Permutation(ring).Draw(t, "order")
}

func genKind(t *rapid.T) Kind {
	return rapid.SampledFrom([]Kind{Fork, Step, Members, Access}).Draw(t, "kind")
}

func genRecord(t *rapid.T) Record {
	c := Record{
		Run: genRoot(t), Height: rapid.Uint64().Draw(t, "height"), Kind: genKind(t), Prev: genRoot(t),
		Slot: rapid.Uint64().Draw(t, "slot"), StateRoot: genRoot(t), Work: rapid.Uint64().Draw(t, "work"),
	}
	for _, p := range genPeers(t, 0, 4) {
		c.Members = append(c.Members, genMember(t, p))
	}
	for _, p := range genPeers(t, 0, 2) {
		m := genMember(t, p)
		m.Seat = 0
		c.Absent = append(c.Absent, m)
	}
	if ps := genPeers(t, 0, 3); len(ps) > 0 {
		c.Evicted = ps
	}
	if c.Kind == Step {
		c.Fragment = rapid.Uint32().Draw(t, "fragment")
		c.Contributions, c.Usual = genOffers(t), rapid.Uint64().Draw(t, "usual")
		c.Segments = genSegments(t, len(c.Contributions))
	}
	if c.Kind == Access {
		c.Key, c.Decisions = genRoot(t), genDecisions(t)
	}
	return c
}

func genMember(t *rapid.T, p PeerID) Member {
	return Member{
		p, Incarnation(rapid.Uint64().Draw(t, "incarnation")), rapid.Uint64().Draw(t, "since"),
		rapid.Uint64().Draw(t, "seat"), rapid.Uint16().Draw(t, "credit"),
	}
}

func genMotion(t *rapid.T) Motion {
	o := Motion{
		Action: rapid.SampledFrom([]Action{Remove, Readmit, Rotate}).Draw(t, "action"),
		Turn:   rapid.Uint64().Draw(t, "turn"), From: rapid.Uint64().Draw(t, "from"),
	}
	if o.Action != Rotate {
		o.Peer = "p"
	}
	return o
}

func genDecisions(t *rapid.T) (ds []Decision) {
	for _, p := range genPeers(t, 0, 2) {
		d := Decision{Action: Readmit, Peer: "x" + p, Turn: rapid.Uint64().Draw(t, "turn")}
		for _, q := range genPeers(t, 0, 3) {
			d.Motions = append(d.Motions, SignedMotion{
				q, rapid.Uint64().Draw(t, "from"),
				rapid.SliceOfN(rapid.Byte(), 0, MaxSigLen).Draw(t, "sig"),
			})
		}
		ds = append(ds, d)
	}
	if rapid.Bool().Draw(t, "rotates") {
		ds = append(ds, Decision{Action: Rotate})
	}
	return ds
}

func parseRecord(b []byte) (Record, error) {
	r := wire.NewReader(b)
	c := ReadRecord(r)
	return c, r.Done()
}

func genCertificate(t *rapid.T) Certificate {
	c := Certificate{Vote: Vote{genRef(t), genRoot(t)}}
	for _, p := range genPeers(t, 0, 4) {
		c.Signatures = append(c.Signatures, Signature{p, rapid.SliceOfN(rapid.Byte(), 0, MaxSigLen).Draw(t, "sig")})
	}
	return c
}

func genLayout(t *rapid.T) Layout {
	l := Layout{}
	for range rapid.IntRange(0, 4).Draw(t, "tensors") {
		shape := rapid.SliceOfN(rapid.Uint64(), 1, trainer.MaxDims).Draw(t, "shape")
		l = append(l, Tensor{Name: rapid.String().Draw(t, "name"), Shape: shape}, Tensor{Name: "scalar"})
	}
	return l
}

type appender interface{ Append([]byte) []byte }

// parsers reads one value of each type, for the properties and the fuzz target.
var parsers = []struct {
	name string
	gen  func(*rapid.T) appender
	read func(*wire.Reader) appender
}{
	{
		"offer", func(t *rapid.T) appender { return append(genOffers(t), Offer{Peer: "p"})[0] },
		func(r *wire.Reader) appender { return ReadOffer(r) },
	},
	{"ref", func(t *rapid.T) appender { return genRef(t) }, func(r *wire.Reader) appender { return ReadRef(r) }},
	{"plan", func(t *rapid.T) appender { return genPlan(t) }, func(r *wire.Reader) appender { return ReadPlan(r) }},
	{
		"segment", func(t *rapid.T) appender { return append(genSegments(t, 9), Segment{Contributors: Bitmap{}})[0] },
		func(r *wire.Reader) appender { return ReadSegment(r) },
	},
	{
		"vote", func(t *rapid.T) appender { return Vote{genRef(t), genRoot(t)} },
		func(r *wire.Reader) appender { return ReadVote(r) },
	},
	{
		"order", func(t *rapid.T) appender { return genMotion(t) },
		func(r *wire.Reader) appender { return ReadMotion(r) },
	},
	{
		"record", func(t *rapid.T) appender { return genRecord(t) },
		func(r *wire.Reader) appender { return ReadRecord(r) },
	},
	{
		"certificate", func(t *rapid.T) appender { return genCertificate(t) },
		func(r *wire.Reader) appender { return ReadCertificate(r) },
	},
	{
		"layout", func(t *rapid.T) appender { return genLayout(t) },
		func(r *wire.Reader) appender { return ReadLayout(r) },
	},
}

// Every value comes back equal, and no shorter or longer bytes parse.
func TestRoundTrips(t *testing.T) {
	for _, p := range parsers {
		t.Run(p.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				want := p.gen(t)
				b := want.Append(nil)
				r := wire.NewReader(b)
				got := p.read(r)
				if err := r.Done(); err != nil {
					t.Fatalf("%+v: %v", want, err)
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("got %#v\nwant %#v", got, want)
				}
				cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
				for _, bad := range [][]byte{b[:cut], append(bytes.Clone(b), 0)} {
					r := wire.NewReader(bad)
					p.read(r)
					if r.Done() == nil {
						t.Fatalf("%d bytes parse like %d", len(bad), len(b))
					}
				}
			})
		})
	}
}

// What parses is canonical: appended again it gives the same bytes.
func FuzzParsers(f *testing.F) {
	for i, p := range parsers {
		for seed := range 4 {
			f.Add(uint8(i), rapid.Custom(func(t *rapid.T) []byte { return p.gen(t).Append(nil) }).Example(seed))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		p := parsers[int(which)%len(parsers)]
		r := wire.NewReader(b)
		v := p.read(r)
		if r.Done() == nil && !bytes.Equal(v.Append(nil), b) {
			t.Fatalf("%s: %x parses to %+v, which is %x", p.name, b, v, v.Append(nil))
		}
	})
}

func testStep() Record {
	return Record{
		Height: 7, Kind: Step, Slot: 3, Work: 9,
		Members:       []Member{{"a", 1, 1, 1, 40}, {"b", 2, 1, 0, 8}},
		Absent:        []Member{{Peer: "c", Incarnation: 3, Since: 1, Credit: 2}},
		Evicted:       []PeerID{"e", "d"},
		Contributions: []Offer{{Peer: "a", Slot: 3}, {Peer: "b", Slot: 3}},
		Segments: []Segment{
			{Range: Range{0, 5}, Contributors: Bitmap{3}},
			{Range: Range{5, 9}, Contributors: Bitmap{1}},
		},
	}
}

// Forms that would give one record a second encoding, or that no encoder writes.
func TestStrictness(t *testing.T) {
	cases := map[string]func(*Record){
		"kind 0":               func(c *Record) { c.Kind = 0 },
		"kind 5":               func(c *Record) { c.Kind = 5 },
		"members out of order": func(c *Record) { slices.Reverse(c.Members) },
		"absent members out of order": func(c *Record) {
			c.Absent = append(c.Absent, Member{Peer: "b", Incarnation: 1, Since: 1, Credit: 1})
		},
		"an evicted key twice":          func(c *Record) { c.Evicted[1] = c.Evicted[0] },
		"a member twice":                func(c *Record) { c.Members[1] = c.Members[0] },
		"contributions out of order":    func(c *Record) { slices.Reverse(c.Contributions) },
		"a contribution twice":          func(c *Record) { c.Contributions[1] = c.Contributions[0] },
		"segments with a gap":           func(c *Record) { c.Segments[1].Range.Begin = 6 },
		"segments that overlap":         func(c *Record) { c.Segments[1].Range.Begin = 4 },
		"a range that ends too early":   func(c *Record) { c.Segments[0].Range = Range{6, 5} },
		"a bitmap too long":             func(c *Record) { c.Segments[0].Contributors = Bitmap{3, 0} },
		"a bitmap too short":            func(c *Record) { c.Segments[0].Contributors = Bitmap{} },
		"a bit beyond the contributors": func(c *Record) { c.Segments[1].Contributors = Bitmap{5} },
		"an overlong peer ID": func(c *Record) {
			c.Members[1].Peer = PeerID(bytes.Repeat([]byte("z"),
				MaxPeerIDLen+1))
		},
	}
	if _, err := parseRecord(testStep().Append(nil)); err != nil {
		t.Fatalf("the sound record: %v", err)
	}
	for name, spoil := range cases {
		c := testStep()
		spoil(&c)
		if _, err := parseRecord(c.Append(nil)); err == nil {
			t.Errorf("%s: parsed", name)
		}
	}
}

// A graded record whose seats and credits go without saying would be another encoding of a plain
// one.
func TestPlainRecordIsNotGraded(t *testing.T) {
	c := Record{Kind: Members, Members: []Member{{"a", 1, 5, 5, 0}}}
	b := c.Append(nil)
	b[32+8] |= gradedKind
	end := len(b) - 8
	b = wire.AppendU64(append(wire.AppendU16(wire.AppendU64(b[:end:end], 5), 0), make([]byte, 8)...), 0)
	if _, err := parseRecord(b); err == nil {
		t.Error("parsed")
	}
	b[end+7]++ // the seat
	if _, err := parseRecord(b); err != nil {
		t.Error(err)
	}
}

// Counts beyond their cap are refused before anything is allocated for them.
func TestCaps(t *testing.T) {
	c := Record{Kind: Members}
	b := c.Append(nil)
	c.Evicted = []PeerID{"e"}
	graded := c.Append(nil)
	for _, list := range []struct {
		name string
		b    []byte
		at   int // its count, from the end
	}{
		{"members", b, 8 + 4},
		{"members", graded, 8 + 5 + 4 + 4 + 4},
		{"absent members", graded, 8 + 5 + 4 + 4},
		{"evicted keys", graded, 8 + 5 + 4},
	} {
		b, at := list.b, len(list.b)-list.at
		for _, n := range []uint32{2, MaxMembers + 1, 1 << 31} {
			bad := append(wire.AppendU32(bytes.Clone(b[:at]), n), b[at+4:]...)
			if _, err := parseRecord(bad); err == nil {
				t.Errorf("%d %s without bytes parsed", n, list.name)
			}
		}
	}
	for i := range MaxEvicted {
		c.Evicted = append(c.Evicted, PeerID(fmt.Sprintf("%03d", i)))
	}
	if _, err := parseRecord(c.Append(nil)); err == nil {
		t.Errorf("%d evicted keys parsed", len(c.Evicted))
	}
	c.Evicted = c.Evicted[1:]
	if _, err := parseRecord(c.Append(nil)); err != nil {
		t.Errorf("%d evicted keys: %v", len(c.Evicted), err)
	}
}

func TestRecordHashCoversEveryField(t *testing.T) {
	seen := map[Root]string{testStep().Hash(): "nothing"}
	for name, change := range map[string]func(*Record){
		"run": func(c *Record) { c.Run[0]++ }, "height": func(c *Record) { c.Height++ },
		"kind": func(c *Record) { c.Kind = Members },
		"prev": func(c *Record) { c.Prev[0]++ }, "slot": func(c *Record) { c.Slot++ },
		"state root":  func(c *Record) { c.StateRoot[0]++ },
		"summary":     func(c *Record) { c.Summary[0]++ },
		"member":      func(c *Record) { c.Members[0].Peer = "0" },
		"incarnation": func(c *Record) { c.Members[0].Incarnation++ },
		"seat":        func(c *Record) { c.Members[0].Seat++ },
		"credit":      func(c *Record) { c.Members[0].Credit++ },
		"absent":      func(c *Record) { c.Absent[0].Credit++ },
		"evicted":     func(c *Record) { c.Evicted = c.Evicted[1:] },
		"since":       func(c *Record) { c.Members[0].Since++ }, "work": func(c *Record) { c.Work++ },
		"fragment":     func(c *Record) { c.Fragment++ },
		"weight":       func(c *Record) { c.Contributions[0].Weight++ },
		"contributors": func(c *Record) { c.Segments[0].Contributors[0] = 1 },
		"segment root": func(c *Record) { c.Segments[0].Root[0]++ },
	} {
		c := testStep()
		change(&c)
		if was, dup := seen[c.Hash()]; dup {
			t.Errorf("a record with another %s has the hash of one with another %s", name, was)
		}
		seen[c.Hash()] = name
	}
}

func TestBitmap(t *testing.T) {
	m := NewBitmap(11)
	m.Set(0)
	m.Set(10)
	if !m.Has(0) || !m.Has(10) || m.Has(9) || m.Has(400) || m.Count() != 2 || !m.Fits(11) || m.Fits(10) || m.Fits(17) {
		t.Errorf("bitmap %08b", m)
	}
	if !NewBitmap(0).Fits(0) || !NewBitmap(8).Fits(8) || (Bitmap{0}).Fits(0) {
		t.Error("bitmaps over nothing or whole bytes")
	}
}

func TestIDsAsText(t *testing.T) {
	p := PeerID("\x00\x24\x08\x01\x12\x20" + string(bytes.Repeat([]byte{7}, 32)))
	got, err := ParsePeerID(p.String())
	if err != nil || got != p {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"", "0OIl", string(bytes.Repeat([]byte("z"), 200))} {
		if _, err := ParsePeerID(bad); err == nil {
			t.Errorf("peer ID %q parsed", bad)
		}
	}
	r := Hash([]byte("x"))
	var back Root
	text, err := r.MarshalText()
	if err != nil || back.UnmarshalText(text) != nil || back != r {
		t.Errorf("%s became %s", r, back)
	}
	if back.UnmarshalText(text[:62]) == nil || back.UnmarshalText([]byte("zz")) == nil {
		t.Error("a wrong root parsed")
	}
}

func TestFrameRoot(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 10)
	h := FrameHashes(data, 32)
	if len(h) != 4 || h[3] != Hash(data[96:]) || h[0] != Hash(data[:32]) {
		t.Fatalf("%d frames", len(h))
	}
	root := FrameRoot(h, 32, 100)
	if root == FrameRoot(h, 33, 100) || root == FrameRoot(h, 32, 101) || root == FrameRoot(h[:3], 32, 100) {
		t.Error("the root does not cover frame size, length and every frame")
	}
	if len(FrameHashes(nil, 32)) != 0 {
		t.Error("nothing has frames")
	}
}

// A group keeps its name over ballots, revisions, losses and moved pieces, and over nothing else.
func TestGroupOutlivesRevisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := genPlan(t), genPlan(t)
		q.Opened, q.Slot, q.Fragment, q.Offers, q.Ring = p.Opened, p.Slot, p.Fragment, p.Offers, p.Ring
		if p.Group() != q.Group() {
			t.Fatal("a revision changes the name")
		}
		for name, change := range map[string]func(*Plan){
			"height": func(p *Plan) { p.Opened.Height++ }, "prev": func(p *Plan) { p.Opened.Prev[0]++ },
			"slot":             func(p *Plan) { p.Slot++ },
			"opening ballot":   func(p *Plan) { p.Opened.Ballot++ },
			"opening revision": func(p *Plan) { p.Opened.Revision++ },
			"schedule":         func(p *Plan) { p.Ring = append(slices.Clone(p.Ring), 0) },
			"offers":           func(p *Plan) { p.Offers = append(slices.Clone(p.Offers), Offer{Peer: "~"}) },
		} {
			q := p
			if change(&q); q.Group() == p.Group() {
				t.Fatalf("another %s keeps the name", name)
			}
		}
	})
}

// What is wide enough: more than half of those who are not gone, and min_peers.
func TestWide(t *testing.T) {
	p := Plan{Offers: make([]Offer, 5)}
	for _, c := range []struct {
		gone              Bitmap
		contributors, min int
		want              bool
	}{
		{nil, 3, 1, true},
		{nil, 2, 1, false},
		{nil, 3, 4, false},
		{Bitmap{1}, 3, 1, true},
		{Bitmap{1}, 2, 0, false},
		{Bitmap{7}, 2, 1, true},
		{Bitmap{7}, 1, 1, false},
		{Bitmap{15}, 1, 1, true},
		{Bitmap{15}, 0, 0, false},
	} {
		if p.Gone = c.gone; p.Wide(c.contributors, c.min) != c.want {
			t.Errorf("gone %v: %d contributors, min %d: not %v", c.gone, c.contributors, c.min, c.want)
		}
	}
}

// A HAVE for a secret says for which decisions: from whom it is kept follows from them.
func TestDraftOutcomes(t *testing.T) {
	rotate := Draft{Kind: Access, Key: Root{1}, Decisions: []Decision{{Action: Rotate}}}
	more := rotate
	more.Decisions = []Decision{{Action: Remove, Peer: "d"}, {Action: Rotate}}
	other := rotate
	other.Key = Root{2}
	without := rotate
	without.Key = Root{}
	if o := rotate.Outcome(); o.IsZero() || o == more.Outcome() || o == other.Outcome() || !without.Outcome().IsZero() {
		t.Error("drafts of different secrets or decisions have equal outcomes")
	}
}
