package figures

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// bench feeds a watch, and a tracker with what it finds.
type bench struct {
	t       *testing.T
	w       *watch
	tracker *Tracker
	slot    uint64
}

func newBench(t *testing.T) *bench {
	return &bench{t: t, tracker: NewTracker("self"), w: newWatch(func(usual uint64) slot.Weighing {
		return slot.Weighing{Ratio: 8, Usual: usual, Empties: true}
	})}
}

// words are what stands, by peer.
func (b *bench) words() map[slot.PeerID][]string {
	all := map[slot.PeerID][]string{}
	for _, f := range b.tracker.found {
		all[f.Peer] = append(all[f.Peer], f.Words)
	}
	return all
}

// gift is what a peer contributes: a byte a frame, of which each says what is in it; 0 for zeros.
type gift struct {
	frames string
	weight uint64
	unseen bool
	empty  bool
}

func frames(s string) gift { return gift{frames: s, weight: 10} }

var unseen = gift{unseen: true, weight: 1}

// took takes in the next slot, of fragment 0, to which peers contribute by name, and returns the
// events.
func (b *bench) took(gifts map[string]gift) []string {
	b.slot++
	return b.at(b.slot, 0, gifts)
}

func (b *bench) at(slotNumber uint64, fragment uint32, gifts map[string]gift) []string {
	b.t.Helper()
	b.slot = slotNumber
	r := slot.Record{Kind: slot.Step, Slot: slotNumber, Fragment: fragment, Usual: 10}
	for name, g := range gifts {
		o := slot.Offer{Peer: slot.PeerID(name), Slot: slotNumber, Weight: g.weight, NormSq: 4}
		if g.empty {
			o.NormSq = 0
		}
		r.Contributions = append(r.Contributions, o)
		r.Members = append(r.Members, slot.Member{Peer: o.Peer})
	}
	slices.SortFunc(r.Contributions, func(x, y slot.Offer) int { return cmp.Compare(x.Peer, y.Peer) })
	slices.SortFunc(r.Members, func(x, y slot.Member) int { return cmp.Compare(x.Peer, y.Peer) })
	var peers []slot.PeerID
	for _, m := range r.Members {
		peers = append(peers, m.Peer)
	}
	changes := b.tracker.Begin(slotNumber, peers)
	for _, odd := range b.w.noteRecord(r, func(o slot.Offer) (leaves []slot.FrameLeaf, ok bool) {
		g := gifts[string(o.Peer)]
		for i, c := range []byte(g.frames) {
			l := slot.FrameLeaf{}
			if c != '0' {
				l.NormSq = 1
			}
			binary.BigEndian.PutUint64(l.Hash[:], uint64(c)<<32|uint64(i))
			leaves = append(leaves, l)
		}
		return leaves, !g.unseen
	}) {
		changes = append(changes, b.tracker.Note(slotNumber, odd)...)
	}
	var begun []string
	for _, c := range changes {
		if c.Begins {
			begun = append(begun, string(c.Peer)+" "+string(c.Kind))
		}
	}
	slices.Sort(begun)
	return begun
}

func TestCopiesAreToldToBoth(t *testing.T) {
	b := newBench(t)
	honest := map[string]gift{"ada": frames("abcd"), "bob": frames("efgh"), "cleo": frames("00ij")}
	if got := b.took(honest); len(got) > 0 || len(b.words()) > 0 {
		t.Fatalf("honest peers: %v", got)
	}
	// frames of zeros and a single equal one say nothing
	b.took(map[string]gift{"ada": frames("00ak"), "bob": frames("00bl"), "cleo": frames("00bm")})
	b.took(map[string]gift{"ada": frames("nopq"), "bob": frames("nrst"), "cleo": frames("0000"), "dan": frames("0000")})
	if len(b.words()) > 0 {
		t.Fatalf("honest peers with a frame in common: %v", b.words())
	}
	twins := map[string]gift{"ada": frames("1234"), "bob": frames("5678"), "cleo": frames("1294")}
	if got := b.took(twins); !slices.Equal(got, []string{"ada same_bytes", "cleo same_bytes"}) {
		t.Fatalf("twins: %v", got)
	}
	words := b.words()
	if want := "same bytes as " + slot.PeerID("ada").Short() + ": same data and seed?"; len(words) != 2 ||
		!slices.Equal(words["cleo"], []string{want}) {
		t.Errorf("%v, want %q of cleo", words, want)
	}
	again := map[string]gift{"ada": frames("ABCD"), "bob": frames("EFGH"), "cleo": frames("ABCD")}
	if got := b.took(again); len(got) > 0 {
		t.Errorf("what goes on is told again: %v", got)
	}
	for range KeptSlots {
		b.took(map[string]gift{"ada": unseen, "bob": unseen, "cleo": unseen})
	}
	if len(b.words()) != 2 {
		t.Errorf("forgotten too soon: %v", b.words())
	}
	b.took(honest)
	if _, still := b.words()["cleo"]; still && slices.ContainsFunc(b.words()["cleo"], func(s string) bool {
		return strings.HasPrefix(s, "same")
	}) {
		t.Errorf("never forgotten: %v", b.words())
	}
}

func TestWhatWasSentBefore(t *testing.T) {
	b := newBench(t)
	b.at(3, 0, map[string]gift{"ada": frames("abcd"), "bob": frames("efgh"), "cleo": frames("0000")})
	b.at(4, 1, map[string]gift{"ada": frames("abcd"), "bob": frames("ijkl"), "cleo": frames("0000")})
	if len(b.words()) > 0 {
		t.Fatalf("of another fragment: %v", b.words())
	}
	got := b.at(5, 0, map[string]gift{"ada": frames("mnop"), "bob": frames("efgx"), "cleo": frames("0000")})
	if !slices.Equal(got, []string{"bob sent_again"}) ||
		b.words()["bob"][0] != "sent the contribution of slot 3 again" {
		t.Fatalf("%v, %v", got, b.words())
	}
	// another branch decides slot 5 anew: what was sent to it was not sent before
	if got := b.at(5, 0, map[string]gift{"ada": frames("mnop")}); len(got) > 0 || len(b.words()) > 0 {
		t.Errorf("another branch: %v, %v", got, b.words())
	}
	if n := len(b.w.sent); n != 1 {
		t.Errorf("%d peers are kept in mind, 1 is left", n)
	}
	for range 2 * kept {
		b.took(map[string]gift{"ada": frames(fmt.Sprintf("%04d", b.slot))})
	}
	if n := len(b.w.sent["ada"]); n != kept {
		t.Errorf("%d contributions are kept, want %d", n, kept)
	}
}

func TestClaimsAndNothing(t *testing.T) {
	b := newBench(t)
	got := b.took(map[string]gift{
		"ada": frames("abcd"), "bob": {frames: "efgh", weight: 1 << 50},
		"cleo": {frames: "0000", weight: 10, empty: true},
		"dan":  {frames: "ijkl", weight: 80},
	})
	if !slices.Equal(got, []string{"bob capped", "cleo zeros"}) {
		t.Fatal(got)
	}
	words := b.words()
	if words["bob"][0] != "weight capped: it claims 1125899906842624 and counts as 80, 8 times the median" ||
		words["cleo"][0] != "sends nothing (norm 0): it weighs nothing and earns no credit" {
		t.Error(words)
	}
}

// A thousand copies are told in few words.
func TestManyCopies(t *testing.T) {
	b := newBench(t)
	gifts := map[string]gift{}
	for i := range 1000 {
		gifts[fmt.Sprintf("p%04d", i)] = frames("abcdefgh")
	}
	b.took(gifts)
	words := b.words()
	if len(words) != 1000 || len(words["p0000"]) > 4 || len(words["p0999"]) != 1 {
		t.Errorf("%d members, %q", len(words), words["p0000"])
	}
}
