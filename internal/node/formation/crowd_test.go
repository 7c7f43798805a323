package formation

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// stranger is the ID of one of many strangers, above or below all others.
func stranger(first byte, i int) slot.PeerID {
	return slot.PeerID(binary.BigEndian.AppendUint16([]byte{first}, uint16(i)))
}

// As many strangers as are remembered say that they are about to found the run, and do not. A peer
// that says so after them is waited for all the same, whether they repeat it or fall silent, and
// those that wait are in one run.
func TestManyPromisesDivideNobody(t *testing.T) {
	for name, repeated := range map[string]time.Duration{
		"once": 0, "for ever": 3 * promiseWait,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWaiting(t, 3)
				w.crowd = func(f *Formation, now time.Duration) {
					for i := 0; now <= repeated && i < maxKnown; i++ {
						f.mu.Lock()
						f.notePromise(stranger(0xff, i), nil)
						f.mu.Unlock()
					}
				}
				w.run(t)
				for i, f := range w.peers {
					if s := f.spec(); s == nil || !isOf(*s, w.peers[0].cfg.Network.ID()) {
						t.Errorf("peer %d of the order of IDs is not in the run that the first one founds", i)
					}
				}
				most := 2*promiseWait + 2*w.peers[0].cfg.Hello*hearsSearching
				if w.settled < promiseWait || w.settled > most {
					t.Errorf("the first spec is settled after %s, want %s to %s", w.settled, promiseWait, most)
				}
			})
		})
	}
}

// What a peer has broken stays known after its place was given away, and what is remembered of
// such peers is bounded.
func TestABrokenPromiseGetsNoMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newWaiting(t, 1).peers[0]
		f.mu.Lock()
		defer f.mu.Unlock()
		f.notePromise(stranger(0, 0), nil)
		time.Sleep(promiseWait / 2)
		for i := range maxKnown { // the silent one gives its place to one of these
			f.notePromise(stranger(1, i), nil)
		}
		f.notePromise(stranger(0, 0), nil)
		time.Sleep(promiseWait / 2)
		f.notePromise(stranger(0, 0), nil)
		if given, _ := f.promiseOf(stranger(0, 0)); !given.broken() {
			t.Error("a peer that was silent for a while is given its time again")
		}
		for i := range maxPast + maxKnown {
			f.notePromise(stranger(2, i), nil)
			if i%maxKnown == 0 {
				time.Sleep(promiseWait)
			}
		}
		time.Sleep(promiseWait)
		if f.awaitsFounder() {
			t.Error("it waits for a peer that has had its time")
		}
		if len(f.mu.past) > maxPast || len(f.mu.promises) > maxKnown {
			t.Errorf("it remembers %d promises and %d of the past", len(f.mu.promises), len(f.mu.past))
		}
	})
}

// Strangers that search, or name others, do not fill what is remembered for good: a lower ID comes
// before higher ones, and whoever is heard before whoever is silent.
func TestSearchingStrangersHideNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newWaiting(t, 1).peers[0]
		hello := p2p.Hello{Run: f.given.Name, Given: map[string]string{"layout": "of another peer"}}
		ahead := func() int {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.ahead()
		}
		for i := range maxKnown {
			hello.Awaits = stranger(0, i)
			f.receive(stranger(0xff, i), hello)
		}
		hello.Awaits = ""
		f.receive("\x00", hello)
		if n := ahead(); n != maxKnown+1 {
			t.Errorf("%d peers are ahead, want %d: one is hidden by higher ones", n, maxKnown+1)
		}
		for i := range maxKnown {
			f.receive(stranger(0, i), hello)
		}
		time.Sleep(hearsSearching * f.cfg.Hello)
		hello.Awaits = "\x00\x01"
		f.receive("\x00\x02", hello)
		if n := ahead(); n != 2 {
			t.Errorf("%d peers are ahead, want the one that is heard and the one that it awaits", n)
		}
	})
}

// A peer that was started again has heard nobody yet, and says that it awaits nobody. What it said
// before stands for as long as what any other said: else two that hear each other through it alone
// found two runs.
func TestARestartTakesNoWordBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newWaiting(t, 1).peers[0]
		between := p2p.Hello{Run: f.given.Name, Awaits: "\x00"}
		f.receive("\xff", between)
		between.Awaits = ""
		f.receive("\xff", between)
		f.mu.Lock()
		defer f.mu.Unlock()
		if n := f.ahead(); n != 1 {
			t.Errorf("%d peers are ahead, want the one that was awaited", n)
		}
	})
}

// A stranger that names a thousand peers in turn is heard as one.
func TestOneStrangerSpeaksForOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newWaiting(t, 1).peers[0]
		hello := p2p.Hello{Run: f.given.Name, AwaitsFounder: true}
		for i := range maxKnown {
			hello.Awaits = stranger(0xff, i)
			f.receive("\xff", hello)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if n := f.ahead(); n != 1 {
			t.Errorf("%d peers are ahead by the word of one, want 1", n)
		}
	})
}

// As many strangers as are remembered say whom they await: all the same peer, one that is heard
// here, or a founder that has broken its word. Another peer's word still counts.
func TestManyWordsHideNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		awaits  slot.PeerID
		founder bool
		want    int
	}{
		"one lower peer":     {awaits: "\x00\x01", want: 2},
		"one that is heard":  {awaits: "\x00\x02", want: 2},
		"a broken founder":   {awaits: "\xff\xff", founder: true, want: 1},
		"the one it names":   {awaits: "\x00", want: 1},
		"a founder of later": {awaits: "\xff\xfe", founder: true, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newWaiting(t, 1).peers[0]
				f.mu.Lock()
				f.notePromise("\xff\xff", nil)
				f.mu.Unlock()
				time.Sleep(promiseWait)
				if c.awaits == "\x00\x02" {
					f.receive(c.awaits, p2p.Hello{
						Run: f.given.Name, Given: map[string]string{"layout": "of another peer"},
					})
				}
				for i := range maxKnown {
					f.receive(stranger(0xff, i), p2p.Hello{
						Run: f.given.Name, Awaits: c.awaits, AwaitsFounder: c.founder,
					})
				}
				f.receive("\xff", p2p.Hello{Run: f.given.Name, Awaits: "\x00"})
				f.mu.Lock()
				defer f.mu.Unlock()
				if n := f.ahead(); n != c.want || len(f.mu.expected) > maxKnown {
					t.Errorf("%d peers are ahead by %d words, want %d", n, len(f.mu.expected), c.want)
				}
			})
		})
	}
}

// Strangers that each name another lower peer fill all places, and are waited for that long.
func TestWordsThatFillAllPlacesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newWaiting(t, 1).peers[0]
		for i := range maxKnown + 1 {
			f.receive(stranger(0xff, i), p2p.Hello{Run: f.given.Name, Awaits: stranger(0, i)})
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if n := f.ahead(); n != maxKnown {
			t.Errorf("%d peers are ahead, want %d", n, maxKnown)
		}
	})
}

// A stranger that says the same as an honest peer, so that the word of that one gives up its place,
// and then takes it back, hides nobody before the honest peer repeats itself.
func TestAWordTakenBackHidesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newWaiting(t, 1).peers[0]
		says := func(p, awaits slot.PeerID) {
			f.receive(p, p2p.Hello{Run: f.given.Name, Awaits: awaits})
		}
		ahead := func() int {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.ahead()
		}
		says("\xff", "\x00")
		for i := range maxKnown - 1 {
			says(stranger(0xff, i), "\x00\x01")
		}
		says("\xff\xff\xff", "\x00") // in the place of the honest one
		if n := ahead(); n != 2 {
			t.Fatalf("%d peers are ahead, want 2", n)
		}
		says("\xff\xff\xff", "\x00\x01")
		if n := ahead(); n != 2 {
			t.Errorf("%d peers are ahead once a word is taken back, want 2", n)
		}
		time.Sleep(2 * hearsSearching * f.cfg.Hello)
		if n := ahead(); n != 0 {
			t.Errorf("%d peers are ahead, and none is named any more", n)
		}
	})
}

// Words that are too old to count make room, and not the one that says the same and counts.
func TestOldWordsTakeNoNewOneWithThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newWaiting(t, 1).peers[0]
		for i := range maxKnown - 1 {
			f.receive(stranger(0xff, i), p2p.Hello{Run: f.given.Name, Awaits: "\x00"})
		}
		time.Sleep(2 * hearsSearching * f.cfg.Hello)
		f.receive("\xff", p2p.Hello{Run: f.given.Name, Awaits: "\x00"})
		f.receive("\xff\xff\xff", p2p.Hello{Run: f.given.Name, Awaits: "\x00\x01"})
		f.mu.Lock()
		defer f.mu.Unlock()
		if _, kept := f.mu.expected["\xff"]; !kept || f.ahead() != 2 {
			t.Errorf("it waits for %d peers, not 2; the newer word is kept: %v", f.ahead(), kept)
		}
	})
}
