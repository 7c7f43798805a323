package gossip

import (
	"fmt"
	"testing"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// usualOf is the usual bounds for so many authors.
func usualOf(authors int) bounds {
	b := usual
	b.authors = authors
	return b
}

// one has all of an author in one epoch.
func one([]byte) uint64 { return 0 }

// TestWindowAgainstSet compares the window with a set of all that was added. The window may call
// more seen, but only what is older than its size or of an earlier boot.
func TestWindowAgainstSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w window
		added := make(map[[2]uint64]bool)
		near := uint64(rapid.IntRange(0, 1<<20).Draw(t, "start"))
		for range rapid.IntRange(1, 200).Draw(t, "n") {
			boot := rapid.Uint64Range(1, 3).Draw(t, "boot")
			counter := near + rapid.Uint64Range(0, 3*windowSize).Draw(t, "counter")
			if rapid.Bool().Draw(t, "slow") {
				counter = near + rapid.Uint64Range(0, 64).Draw(t, "small")
			}
			seen, was := w.seen(boot, counter), added[[2]uint64{boot, counter}]
			stale := w.started && (boot < w.boot || boot == w.boot && counter+windowSize <= w.high)
			if was && !seen || seen && !was && !stale {
				t.Fatalf("boot %d counter %d: seen %v, added before %v, stale %v", boot, counter, seen, was, stale)
			}
			if !seen {
				w.add(boot, counter)
				added[[2]uint64{boot, counter}] = true
			}
		}
	})
}

func TestWindowAtTheEndOfCounters(t *testing.T) {
	var w window
	const last = ^uint64(0)
	w.add(1, last-5)
	w.add(1, last)
	if !w.seen(1, last) || !w.seen(1, last-5) || w.seen(1, last-1) || w.seen(2, 0) {
		t.Error("the window is wrong at the end of the counters")
	}
}

func TestRates(t *testing.T) {
	o := newOrigins(bounds{1, 3, 100, 1000, 8}, one)
	now := time.Unix(0, 0)
	counter := uint64(0)
	admitted := func(tries, size int) (n int) {
		for range tries {
			counter++
			if o.admit("via", "a", announcement{counter: counter}, size, now) {
				n++
			}
		}
		return n
	}
	if got := admitted(10, 10); got != 3 {
		t.Errorf("%d of a burst of 10 admitted, want 3", got)
	}
	now = now.Add(2 * time.Second)
	if got := admitted(10, 10); got != 2 {
		t.Errorf("%d admitted after 2 s, want 2", got)
	}
	now = now.Add(time.Hour)
	if got := admitted(10, 900); got != 1 {
		t.Errorf("%d of 10 large ones admitted, want 1", got)
	}
	if !o.admit("via", "b", announcement{counter: 1}, 10, now) {
		t.Error("one author's flood mutes another")
	}
}

// A flood of authors does not make the topic forget what it heard of those that are to be kept.
func TestKeptAuthorsAreNotForgotten(t *testing.T) {
	o := newOrigins(usualOf(8), one)
	now := time.Now()
	members := []slot.PeerID{"m1", "m2", "m3"}
	said := announcement{kind: 1, boot: 1, counter: 5}
	o.protect(members)
	for _, id := range append(members, "stranger") {
		if !o.admit("via", id, said, 10, now) {
			t.Fatalf("%s is not heard", id)
		}
	}
	for i := range 100 {
		o.admit("via", slot.PeerID(fmt.Sprint(i)), said, 10, now)
		if o.mu.authors.Len() > 8 {
			t.Fatalf("%d authors are kept", o.mu.authors.Len())
		}
	}
	for _, id := range members {
		if o.admit("via", id, said, 10, now) {
			t.Errorf("%s is heard again", id)
		}
	}
	if !o.admit("via", "stranger", said, 10, now) {
		t.Error("a stranger's window was kept")
	}
	o.protect([]slot.PeerID{"m1", "m2", "m3", "n1", "n2", "n3", "n4", "n5", "n6"})
	// more than there is room for
	for _, id := range []slot.PeerID{"n1", "n2", "n3", "n4", "n5", "n6"} {
		o.admit("via", id, said, 10, now)
	}
	if o.mu.authors.Len() > 8 {
		t.Errorf("%d authors are kept", o.mu.authors.Len())
	}
}

// An author that lost its count of boots starts another epoch, and is heard in it. So many epochs
// are kept, and no more.
func TestEpochs(t *testing.T) {
	o := newOrigins(usual, func(body []byte) uint64 { return uint64(body[0]) })
	admit := func(epoch byte, boot, counter uint64) bool {
		return o.admit("via", "a", announcement{boot: boot, counter: counter, body: []byte{epoch}}, 1, time.Unix(0, 0))
	}
	for i, c := range []struct {
		epoch         byte
		boot, counter uint64
		want          bool
	}{
		{1, 7, 100, true},
		{1, 7, 100, false},
		{1, 6, 200, false},
		{2, 1, 1, true},
		{2, 1, 1, false},
		{1, 7, 100, false},
		{1, 7, 101, true},
	} {
		if got := admit(c.epoch, c.boot, c.counter); got != c.want {
			t.Errorf("%d: %v", i, got)
		}
	}
	for e := range byte(50) {
		admit(e, 1, uint64(e)+500)
	}
	a, _ := o.mu.authors.Peek("a")
	if n := len(a.lives); n > maxLives {
		t.Errorf("%d epochs of one author are kept", n)
	}
}

// What comes from others under the own name is handed on, now and then, and only if it can be read.
func TestEchoes(t *testing.T) {
	heard := 0
	e := newTracer(Config{Kinds: []uint8{1}, Echo: func(uint8, []byte) { heard++ }}.withDefaults(),
		func(peer.ID) { t.Error("that is an offence") })
	say := func(reason string, data []byte) {
		e.RejectMessage(&pubsub.Message{Message: &pb.Message{Data: data}}, reason)
	}
	good := announcement{kind: 1, boot: 1, counter: 1, body: []byte("x")}.append(nil)
	say(pubsub.RejectBlacklistedSource, good)
	say(pubsub.RejectSelfOrigin, good[1:])
	say(pubsub.RejectSelfOrigin, announcement{kind: 9, body: []byte("x")}.append(nil))
	if heard != 0 {
		t.Fatalf("%d were handed on", heard)
	}
	for range 1000 {
		say(pubsub.RejectSelfOrigin, good)
	}
	if heard == 0 || heard > 2*echoBurst {
		t.Errorf("%d of 1000 were handed on", heard)
	}
}

// A neighbour that makes up an author for each announcement gets no further than one author does,
// and takes nobody else's place.
func TestMadeUpAuthorsShareOneRate(t *testing.T) {
	o := newOrigins(usualOf(64), one)
	now := time.Now()
	o.protect([]slot.PeerID{"member"})
	admitted := 0
	for i := range 10_000 {
		if o.admit("flooder", slot.PeerID(fmt.Sprint(i)), announcement{kind: 1}, 10, now) {
			admitted++
		}
	}
	if admitted != o.bounds.burst {
		t.Errorf("%d of a flood of authors were admitted", admitted)
	}
	if !o.admit("flooder", "member", announcement{kind: 1}, 10, now) {
		t.Error("a member is not heard through the flooder")
	}
	if !o.admit("another", "newcomer", announcement{kind: 1}, 10, now) {
		t.Error("a newcomer is not heard through another neighbour")
	}
	for i := range 1000 {
		o.admit(slot.PeerID(fmt.Sprint("neighbour ", i)), "newcomer", announcement{kind: 1, counter: uint64(i)}, 10,
			now)
	}
	if n := o.mu.passed.Len(); n > o.bounds.authors {
		t.Errorf("%d neighbours are kept in mind", n)
	}
}

// A peer that sends junk is muted, and heard again later. However many do, few are remembered.
func TestOffenders(t *testing.T) {
	o, now := newOffenders(), time.Now()
	noted := 0
	for range 1000 {
		if o.note("bad", now) {
			noted++
		}
	}
	if noted != 1 || !o.muted("bad", now) || o.muted("good", now) {
		t.Errorf("told of %d times", noted)
	}
	if o.muted("bad", now.Add(muteFor+time.Second)) {
		t.Error("muted for ever")
	}
	for range 10 * int(offencesBurst) { // rare ones do not add up
		now = now.Add(time.Second)
		o.note("odd", now)
	}
	if o.muted("odd", now) {
		t.Error("muted for what is rare")
	}
	for i := range 2 * maxOffenders {
		o.note(peer.ID(fmt.Sprint(i)), now)
	}
	if n := o.mu.by.Len(); n > maxOffenders {
		t.Errorf("%d are kept in mind", n)
	}
}
