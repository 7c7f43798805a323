package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// linkedRecord is the record of a link, with an absent member and evicted keys.
func linkedRecord() slot.Record {
	return slot.Record{
		Run: testRoot(1), Height: 7, Kind: slot.Members, Prev: testRoot(2), Slot: 3, StateRoot: testRoot(3), Work: 9,
		Members: []slot.Member{
			{Peer: "b", Incarnation: 1, Since: 2, Seat: 2, Credit: 9},
			{Peer: "d", Incarnation: 1, Since: 3, Seat: 3},
			{Peer: "f", Incarnation: 1, Since: 4},
			{Peer: "h", Incarnation: 1, Since: 5, Seat: 6},
		},
		Absent:  []slot.Member{{Peer: "a", Incarnation: 4, Since: 1, Credit: 3}},
		Evicted: []slot.PeerID{"y", "x"},
	}
}

// nextRecord is one that a quorum of linkedRecord's electors may decide: b left, c came, f got a
// seat, h is another incarnation, d and a have other credit, x is forgotten, and z evicted.
func nextRecord() slot.Record {
	r := linkedRecord()
	r.Height, r.Prev, r.Summary, r.Work = 20, testRoot(4), testRoot(5), 10
	r.Members = []slot.Member{
		{Peer: "c", Incarnation: 2, Since: 20},
		{Peer: "d", Incarnation: 1, Since: 3, Seat: 3, Credit: 8},
		{Peer: "f", Incarnation: 1, Since: 4, Seat: 20},
		{Peer: "h", Incarnation: 2, Since: 20},
	}
	r.Absent = []slot.Member{{Peer: "a", Incarnation: 4, Since: 1, Credit: 2}}
	r.Evicted = []slot.PeerID{"y", "z"}
	return r
}

// linkOf is a link whose record these peers have signed.
func linkOf(r slot.Record, signers ...slot.PeerID) Link {
	l := Link{Head: r.Head()}
	l.Certificate.Vote = slot.Vote{Ref: slot.Ref{Height: r.Height, Prev: r.Prev, Ballot: 9}, Hash: r.Hash()}
	for _, p := range signers {
		sig := slot.Signature{Peer: p, Sig: fmt.Append(nil, "signed by ", p)}
		l.Certificate.Signatures = append(l.Certificate.Signatures, sig)
	}
	return l
}

// The layout of docs/protocol.md. In order: the head up to its summary; of the members b and h
// leave, c and h join, f has a seat since 20, and d other credit; the absent one has other credit;
// of the evicted keys the second goes, and z comes; work, body, ballot, and the signatures of the
// first and the last of three electors.
func TestGoldenLink(t *testing.T) {
	l := linkOf(nextRecord(), "b", "h")
	l.Certificate.Signatures[0].Sig, l.Certificate.Signatures[1].Sig = []byte{0xaa}, []byte{0xbb, 0xcc}
	root := func(v slot.Root) string { return hex.EncodeToString(v[:]) }
	want := "0000000000000014 43" + root(testRoot(4)) + "0000000000000003" + root(testRoot(3)) + root(testRoot(5)) +
		"00000002 0000 0003" +
		"00000002 00000001 63 0000000000000002 0000000000000014 0000000000000000 0000" +
		"00000001 68 0000000000000002 0000000000000014 0000000000000000 0000" +
		"00000001 0002 0000000000000014" + "00000001 02 0008" +
		"00000000 00000000 00000000 00000001 01 0002" +
		"00000001 0001 00000001 00000001 7a" +
		"000000000000000a" + root(l.Head.Body) + "00000009" + "00000001 05 01 aa 02 bbcc"
	if got := hex.EncodeToString(l.Append(nil, linkedRecord())); got != strings.ReplaceAll(want, " ", "") {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A link comes back as it was, with the hash of its record. No shorter and no longer bytes parse.
func TestLinkAfterAnother(t *testing.T) {
	fork := linkedRecord()
	fork.Kind = slot.Fork
	for _, c := range []struct {
		before slot.Record
		link   Link
	}{
		{linkedRecord(), linkOf(nextRecord(), "b", "d", "h")},
		{nextRecord(), linkOf(linkedRecord(), "f")},
		{slot.Genesis(testRoot(1)), linkOf(fork, "b", "d", "h")}, // its own electors sign a fork
		{linkedRecord(), linkOf(linkedRecord())},
	} {
		was := fmt.Sprint(c.before)
		b := c.link.Append(nil, c.before)
		got, err := ParseLink(b, c.before)
		if err != nil || !reflect.DeepEqual(got, c.link) {
			t.Errorf("%v: got %+v\nwant %+v", err, got, c.link)
		}
		if fmt.Sprint(c.before) != was {
			t.Errorf("the link before is changed: %v", c.before)
		}
		for n := range len(b) {
			if _, err := ParseLink(b[:n], c.before); !errors.Is(err, canonical.ErrMalformed) {
				t.Fatalf("%d of %d bytes: %v", n, len(b), err)
			}
		}
		if _, err := ParseLink(append(b, 0), c.before); !errors.Is(err, canonical.ErrMalformed) {
			t.Errorf("a byte too many: %v", err)
		}
	}
}

// Whatever two records list, the difference leads from one to the other.
func TestDifferences(t *testing.T) {
	members := func(t *rapid.T, name string, seats bool) (ms []slot.Member) {
		for _, p := range rapid.SliceOfNDistinct(rapid.IntRange(0, 12), 0, 12, rapid.ID).Draw(t, name) {
			m := slot.Member{
				Peer:        slot.PeerID(fmt.Sprintf("%02d", p)),
				Incarnation: slot.Incarnation(rapid.IntRange(0, 1).Draw(t, "incarnation")),
				Since:       uint64(rapid.IntRange(0, 1).Draw(t, "since")),
				Credit:      uint16(rapid.IntRange(0, 2).Draw(t, "credit")),
			}
			if seats {
				m.Seat = uint64(rapid.IntRange(0, 2).Draw(t, "seat"))
			}
			ms = append(ms, m)
		}
		slices.SortFunc(ms, func(a, b slot.Member) int { return strings.Compare(string(a.Peer), string(b.Peer)) })
		return ms
	}
	record := func(t *rapid.T) slot.Record {
		r := slot.Record{Kind: slot.Members, Members: members(t, "members", true), Absent: members(t, "absent", false)}
		for _, p := range rapid.SliceOfNDistinct(rapid.IntRange(0, 6), 0, 6, rapid.ID).Draw(t, "evicted") {
			r.Evicted = append(r.Evicted, slot.PeerID(fmt.Sprint(p)))
		}
		return r
	}
	rapid.Check(t, func(t *rapid.T) {
		before, r := record(t), record(t)
		var signers []slot.PeerID
		for _, m := range before.Electors() {
			if rapid.Bool().Draw(t, "signs") {
				signers = append(signers, m.Peer)
			}
		}
		l := linkOf(r, signers...)
		if got, err := ParseLink(l.Append(nil, before), before); err != nil || !reflect.DeepEqual(got, l) {
			t.Fatalf("%v: got %+v\nwant %+v\nafter %+v", err, got, l, before)
		}
	})
}

// What no encoder writes is refused, and the error says what it is.
func TestLinkRefusals(t *testing.T) {
	before, next := linkedRecord(), nextRecord()
	many := make([]slot.Member, slot.MaxMembers)
	for i := range many {
		many[i].Peer = slot.PeerID(fmt.Sprintf("b%05d", i))
	}
	keys := make([]slot.PeerID, slot.MaxEvicted)
	for i := range keys {
		keys[i] = slot.PeerID(fmt.Sprint(i))
	}
	seated := slot.Member{Peer: "e", Seat: 1}
	for want, forge := range map[string]func(*linkParts){
		"leaves that is not among the 4 before": func(p *linkParts) { p.members.left = []int{0, 4} },
		"places that do not ascend":             func(p *linkParts) { p.members.left = []int{3, 0} },
		"a member joins that is there":          func(p *linkParts) { p.members.left = []int{0} },
		"members join in another order":         func(p *linkParts) { slices.Reverse(p.members.joined) },
		"order than that of their peers":        func(p *linkParts) { p.members.joined[1] = p.members.joined[0] },
		"1026 members":                          func(p *linkParts) { p.members.joined = many },
		"count 1025 (at most 1024 allowed":      func(p *linkParts) { p.members.joined = append(many, many[0]) },
		"a seat for member 4 of 4":              func(p *linkParts) { p.members.seats[0].place = 4 },
		"2 bytes say which of 4 members":        func(p *linkParts) { p.members.credits = slot.Bitmap{2, 0} },
		"1 bytes say which of 4 members":        func(p *linkParts) { p.members.credits = slot.Bitmap{32} },
		"129 bytes where at most 128":           func(p *linkParts) { p.members.credits = make(slot.Bitmap, 129) },
		"an absent member with a seat":          func(p *linkParts) { p.absent.joined = []slot.Member{seated} },
		"an evicted key goes that is not among": func(p *linkParts) { p.gone = []int{2} },
		"a key is evicted twice":                func(p *linkParts) { p.evicted = []slot.PeerID{"y"} },
		"257 evicted keys":                      func(p *linkParts) { p.evicted = keys },
		"1 bytes say which of 3 voters signed":  func(p *linkParts) { p.signers = slot.Bitmap{13} },
		"2 bytes say which of 3 voters signed":  func(p *linkParts) { p.signers = slot.Bitmap{5, 0} },
		"0 bytes say which of 3 voters signed":  func(p *linkParts) { p.signers = slot.Bitmap{} },
		"1 bytes wanted, 0 left":                func(p *linkParts) { p.signers = slot.Bitmap{7} },
		"too many":                              func(p *linkParts) { p.signers = slot.Bitmap{1} },
		"a link of kind 0":                      func(p *linkParts) { p.kind = 0x40 },
		"a link of kind 5":                      func(p *linkParts) { p.kind = 0x45 },
		"shorter form":                          func(p *linkParts) { p.members.seats[0] = seatChange{1, 3} },
		"a shorter form, or another order":      func(p *linkParts) { p.summary = slot.Root{} },
		"a link that has a shorter form":        func(p *linkParts) { p.members.credit[0] = 0 },
		"that has a shorter form": func(p *linkParts) { // b leaves and comes as the same
			p.members.joined = append([]slot.Member{before.Members[0]}, p.members.joined...)
		},
		"or another order": func(p *linkParts) { p.gone, p.evicted = []int{0, 1}, []slot.PeerID{"y", "z"} },
	} {
		p := partsOf(before, next)
		forge(&p)
		_, err := ParseLink(p.append(), before)
		if !errors.Is(err, canonical.ErrMalformed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
	if _, err := ParseLink(partsOf(before, next).append(), before); err != nil {
		t.Errorf("unchanged: %v", err)
	}
}

// linkParts are the parts of an encoded link, to be changed.
type linkParts struct {
	next            slot.Record
	kind            uint8
	summary         slot.Root
	members, absent difference
	gone            []int
	evicted         []slot.PeerID
	signers         slot.Bitmap
}

func partsOf(before, next slot.Record) linkParts {
	return linkParts{
		next, 0x43, next.Summary, differenceOf(before.Members, next.Members), differenceOf(before.Absent, next.Absent),
		[]int{1},
		[]slot.PeerID{"z"},
		slot.Bitmap{5},
	}
}

func (p linkParts) append() []byte {
	b := AppendRoot(canonical.AppendU8(canonical.AppendU64(nil, p.next.Height), p.kind), p.next.Prev)
	b = AppendRoot(AppendRoot(canonical.AppendU64(b, p.next.Slot), p.next.StateRoot), p.summary)
	b = appendPlaces(p.absent.append(p.members.append(b)), p.gone)
	b = canonical.AppendU32(b, uint32(len(p.evicted)))
	for _, k := range p.evicted {
		b = appendPeer(b, k)
	}
	b = AppendRoot(canonical.AppendU64(b, p.next.Work), p.next.Head().Body)
	b = canonical.AppendBytes(canonical.AppendU32(b, 9), p.signers)
	return append(b, 1, 0xaa, 1, 0xbb)
}

// The link that costs most for its bytes: a seat given, in lists as long as there may be.
func BenchmarkParseLink(b *testing.B) {
	before := slot.Record{Run: testRoot(1), Kind: slot.Members}
	for i := range slot.MaxMembers {
		m := slot.Member{Peer: slot.PeerID(fmt.Sprintf("%038d", i)), Credit: 1}
		before.Members, before.Absent = append(before.Members, m), append(before.Absent, m)
	}
	for i := range slot.MaxEvicted {
		before.Evicted = append(before.Evicted, slot.PeerID(fmt.Sprintf("%038d", i)))
	}
	before.Members[0].Seat = 1
	next := before
	next.Members = slices.Clone(before.Members)
	next.Members[1].Seat = 2
	link := linkOf(next, before.Members[0].Peer).Append(nil, before)
	b.SetBytes(int64(len(link)))
	for b.Loop() {
		if _, err := ParseLink(link, before); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzParseLink(f *testing.F) {
	for _, l := range []Link{linkOf(nextRecord(), "b", "h"), linkOf(linkedRecord(), "d"), linkOf(testRecord())} {
		f.Add(l.Append(nil, linkedRecord()))
	}
	for _, n := range []int{0, 4} { // as many members as there may be, and nobody left
		r := linkedRecord()
		r.Members = make([]slot.Member, n*slot.MaxMembers/4)
		for i := range r.Members {
			r.Members[i].Peer = slot.PeerID(fmt.Sprintf("%04d", i))
		}
		f.Add(linkOf(r, "b", "d", "h").Append(nil, linkedRecord()))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, before := range []slot.Record{linkedRecord(), slot.Genesis(testRoot(1))} {
			l, err := ParseLink(b, before)
			if err != nil {
				continue
			}
			if l.Head.Hash() != l.Certificate.Hash || !bytes.Equal(l.Append(nil, before), b) {
				t.Fatalf("%x parses to %+v", b, l)
			}
		}
	})
}
