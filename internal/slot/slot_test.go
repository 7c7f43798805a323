package slot

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func parseRecord(b []byte) (Record, error) {
	r := wire.NewReader(b)
	c := ReadRecord(r)
	return c, r.Done()
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
			c.Members[1].Peer = PeerID(bytes.Repeat([]byte("z"), MaxPeerIDLen+1))
		},
		"evicted keys beyond their cap": func(c *Record) {
			for i := range MaxEvicted - 1 {
				c.Evicted = append(c.Evicted, PeerID(fmt.Sprintf("%03d", i)))
			}
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
	upToMembers := Record{Kind: Members}.Append(nil)[:113]
	for name, b := range map[string][]byte{
		"seats and credits that go without saying": ungraded(0),
		"members beyond their cap":                 wire.AppendU32(upToMembers, MaxMembers+1),
	} {
		if _, err := parseRecord(b); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := parseRecord(ungraded(1)); err != nil {
		t.Error(err)
	}
}

// ungraded is a plain record in the form of a graded one. With more its member has another seat.
func ungraded(more byte) []byte {
	b := Record{Kind: Members, Members: []Member{{"a", 1, 5, 5, 0}}}.Append(nil)
	b[32+8] |= gradedKind
	end := len(b) - 8
	return wire.AppendU64(append(append(b[:end:end], 0, 0, 0, 0, 0, 0, 0, 5+more), make([]byte, 2+8)...), 0)
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

func TestRootsAsText(t *testing.T) {
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

// A group keeps its name over ballots, revisions, losses and moved pieces, and over nothing else.
func TestGroupOutlivesRevisions(t *testing.T) {
	p := goldenPlan
	q := Plan{Opened: p.Opened, Slot: p.Slot, Fragment: p.Fragment, Offers: p.Offers, Ring: p.Ring}
	if p.Group() != q.Group() {
		t.Fatal("a revision changes the name")
	}
	for name, change := range map[string]func(*Plan){
		"height": func(p *Plan) { p.Opened.Height++ }, "prev": func(p *Plan) { p.Opened.Prev[0]++ },
		"slot": func(p *Plan) { p.Slot++ }, "fragment": func(p *Plan) { p.Fragment++ },
		"opening ballot":   func(p *Plan) { p.Opened.Ballot++ },
		"opening revision": func(p *Plan) { p.Opened.Revision++ },
		"schedule":         func(p *Plan) { p.Ring = nil }, "offers": func(p *Plan) { p.Offers = p.Offers[:1] },
	} {
		q := p
		if change(&q); q.Group() == p.Group() {
			t.Errorf("another %s keeps the name", name)
		}
	}
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
