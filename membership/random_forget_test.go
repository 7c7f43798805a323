package membership

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// TestRandomForgets has peers forget what they said on branches that they left. The run is cut in
// two; both go on, or one does. Some peers stop. The others come together, and forget. Then the
// ones that stopped are back, cut off with some that have moved on, and operators take peers to
// other branches, by pins. Peers crash in between. In half of the worlds one peer lies about where
// it stands and what it keeps in the place of old records; all else it does like the others.
//
// Nobody opens a height of which it has forgotten what it said there, whatever an operator does.
// Nobody contradicts itself, takes itself for cloned, or has other words in memory than on disk.
func TestRandomForgets(t *testing.T) {
	setFlag(t, "rapid.checks", testlevel.Choose("1", "2", "60"))
	if !testlevel.Nightly() {
		setFlag(t, "rapid.seed", "20261127")
	}
	sum, heard := map[string]int{}, lieCounts{}
	rapid.Check(t, func(t *rapid.T) {
		w := newForgetting(t)
		defer w.sumUp(sum, heard)
		w.world(t)
	})
	t.Logf("%v", sum)
	heard.check(t, labPastLies)
}

// forgetting is a world whose peers forget.
type forgetting struct {
	*chaos
	forgot map[string]uint64 // by peer and incarnation: up to this height
	pinned int
}

func newForgetting(t *rapid.T) *forgetting {
	rules, timing := labRules(), labTiming
	rules.Byzantine = rapid.IntRange(0, 3).Draw(t, "byzantine") == 0
	rules.SummaryEvery = rapid.Uint64Range(2, 16).Draw(t, "summary every")
	timing.ForkAfter = time.Duration(rapid.IntRange(20, 40).Draw(t, "fork after, tenths")) * 100 * time.Millisecond
	first := rapid.IntRange(3, 5).Draw(t, "peers")
	rules.StartPeers, rules.NewcomerShare = first, 500
	w := &forgetting{
		chaos: &chaos{lab: newLab(t, rules, timing), first: first}, forgot: map[string]uint64{},
	}
	w.pins = map[string]slot.Root{}
	for i := range first {
		w.add(string(rune('A' + i)))
	}
	w.connect()
	return w
}

func (w *forgetting) world(t *rapid.T) {
	w.watchFor(t, 5*time.Minute, func() bool {
		return !slices.ContainsFunc(w.peers, func(p *labPeer) bool { return p.m.chain.Floor() == 0 })
	})
	if rapid.Bool().Draw(t, "one lies") {
		p := w.peers[len(w.peers)-1]
		newLabLiar(p, rapid.Uint64().Draw(t, "seed"))
		p.lies.kinds, p.lies.mute, p.auditor = labPastLies, 0, labAuditor{}
	}
	for range rapid.IntRange(1, 2).Draw(t, "times") {
		w.part(t)
		w.live(t, 6)
		var stopped []*labPeer
		for range rapid.IntRange(1, 3).Draw(t, "stop") {
			if p := w.one(t, (*labPeer).up); p != nil {
				p.crash()
				stopped = append(stopped, p)
			}
		}
		if rapid.Bool().Draw(t, "come together") {
			w.heal(t)
		}
		w.live(t, 24)
		w.part(t)
		for _, p := range stopped {
			p.start()
		}
		w.connect()
		w.pin(t, stopped)
		w.live(t, 6)
		w.heal(t)
		w.live(t, 6)
	}
}

// live lets time pass, in which peers crash and are started again.
func (w *forgetting) live(t *rapid.T, seconds int) {
	for range 2 {
		d := rapid.IntRange(seconds/3, seconds/2).Draw(t, "seconds")
		w.watchFor(t, time.Duration(d)*time.Second, func() bool { return false })
		if p := w.one(t, (*labPeer).up); p != nil && rapid.IntRange(0, 2).Draw(t, "crashes") == 0 {
			p.start()
			w.connect()
		}
	}
}

// watchFor runs the world until done says so, or for some time, and looks at all peers then.
func (w *forgetting) watchFor(t *rapid.T, d time.Duration, done func() bool) {
	w.run(d, func() bool {
		for _, p := range w.peers {
			if p.up() {
				w.look(t, p)
			}
		}
		return done()
	})
	w.check(t)
	for _, p := range w.peers {
		if p.up() && diskDiffers(p) {
			t.Fatalf("%s has other words of other branches than its disk\n%s", p.name, w.show())
		}
	}
}

// look says whether a peer has opened a height of which it has forgotten what it said.
func (w *forgetting) look(t *rapid.T, p *labPeer) {
	who := fmt.Sprint(p.name, p.inc)
	if at := p.m.pledges.at.Height; at <= w.forgot[who] && os.Getenv(plantVariable) == "" {
		t.Fatalf("%s has opened height %d, and has forgotten what it said up to %d\n%s", p.name, at, w.forgot[who],
			w.show())
	}
	w.forgot[who] = max(w.forgot[who], p.m.chain.Start())
}

// pin takes peers to the branches of others, or to records of their own that they have forgotten,
// each of them once.
func (w *forgetting) pin(t *rapid.T, stopped []*labPeer) {
	for range rapid.IntRange(1, 3).Draw(t, "pins") {
		p, q := w.one(t, (*labPeer).up), w.one(t, func(q *labPeer) bool {
			return q.up() && slices.Contains(stopped, q)
		})
		if p == nil || q == nil || p == q || !w.pins[p.name].IsZero() || q.m.chain.Height() == 0 {
			continue
		}
		pin := q.m.chain.TipHash()
		if rapid.Bool().Draw(t, "where they parted") {
			pin = q.m.chain.LastingAbove(p.m.chain.CommonHeight(q.m.chain))
		}
		if pin.IsZero() || p.m.chain.Has(q.m.chain.Height(), pin) {
			continue
		}
		w.pinned++
		w.pins[p.name] = pin
		p.start()
		if to := q.m.chain; os.Getenv(plantVariable) != "" && to.Start() < p.m.chain.Start() {
			c, err := chain.Resume(to.Rules(), pin, to.Past(), to.Commits())
			if err == nil && !p.m.chain.Meets(c) {
				p.m.beginAnew(&branch{chain: c, from: q.id})
				p.m.goOnWith(&branch{chain: c, from: q.id}, p.m.chain, 0)
				p.flush()
			}
		}
		w.connect()
	}
}

func (w *forgetting) sumUp(sum map[string]int, heard lieCounts) {
	sum["worlds"]++
	sum["pins"] += w.pinned
	sum["refused"] += btoi(w.tells("move ledger.log and state/ away"))
	for _, p := range w.peers {
		if p.lies != nil {
			sum["liars"]++
			heard.sum(p.lies)
		}
		if p.m != nil {
			sum["switches"] += int(p.m.switches)
			sum["slots"] += int(p.m.chain.Tip().Slot)
			sum["places of other branches"] += len(p.m.pledges.kept)
		}
	}
}

// TestRandomForgetsFindsFaults has pins take peers where they have forgotten what they said, and
// expects TestRandomForgets to find what that breaks.
func TestRandomForgetsFindsFaults(t *testing.T) {
	if !testlevel.Nightly() {
		t.Skip("it takes a minute or so")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRandomForgets$", "-rapid.seed=20261127",
		"-rapid.shrinktime=1ms", "-rapid.nofailfile")
	cmd.Env = append(os.Environ(), plantVariable+"=back", "P2PDILOCO_TEST=nightly")
	out, err := cmd.CombinedOutput()
	after := regexp.MustCompile(`failed after (\d+) tests`).FindSubmatch(out)
	fault := regexp.MustCompile(`(I1|I6|cloned)[^\n]*`).Find(out)
	if err == nil || after == nil || fault == nil {
		t.Fatalf("not found: %v\n%.2000s", err, out)
	}
	t.Logf("after %s worlds: %s", after[1], fault)
}
