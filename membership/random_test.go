package membership

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// TestRandom is the one random world. Peers come with a trainer or without, leave, are removed, die
// for good, crash between two messages or at any operation of their disk, lose what it had not
// synced or all of it, train at different speeds, cannot reduce, and have clocks that jump. The
// network loses, repeats and reorders, cuts pairs and groups apart. Operators rotate the secret. In
// half of the worlds peers fork, and in two of five one or two members lie (machine_liar_test.go),
// with either trust.
//
// At every moment the watcher's invariants hold for the honest peers, and none of them is evicted
// or taken for cloned. While a quorum lives, slots are decided (I4, A4). random_end_test.go says
// what holds at the end. Where more lie than a run withstands, which is one member with trust
// crash, no claim of another peer makes an honest one contradict itself, and that is all.
//
// The worlds are the same each time, so that a change is to blame for what it breaks. Nightly they
// are others each time.
func TestRandom(t *testing.T) {
	setFlag(t, "rapid.checks", testutil.Choose("40", "40", "3000"))
	if flag.Lookup("rapid.seed").Value.String() == "0" && !testutil.Nightly() {
		setFlag(t, "rapid.seed", "20261125")
	}
	sum, heard := map[string]int{}, lieCounts{}
	rapid.Check(t, func(t *rapid.T) {
		w := newChaos(t)
		defer w.sumUp(sum, heard)
		t.Repeat(map[string]func(*rapid.T){
			"":         w.check,
			"run":      w.pass,
			"run on":   w.pass,
			"run more": w.pass,
			"await":    w.await,
			"crash":    w.crash,
			"power":    w.power,
			"restart":  w.restart,
			"format":   w.format,
			"jump":     w.jump,
			"cut":      w.cut,
			"part":     w.part,
			"heal":     w.heal,
			"join":     w.join,
			"leave":    w.leave,
			"die":      w.die,
			"want":     w.want,
			"slow":     w.slow,
			"break":    w.breakDown,
		})
		w.end(t)
	})
	t.Logf("%v", sum)
	heard.check(t, labLies)
}

// chaos is a random world.
type chaos struct {
	*lab
	liars []*labPeer
	first int  // peers that it begins with
	off   bool // more members lie than the run withstands
}

func newChaos(t *rapid.T) *chaos {
	rules, timing := labRules(), labTiming
	lies := rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2}).Draw(t, "liars")
	first := rapid.IntRange(3*lies+1, 4+min(3*lies, 3)).Draw(t, "peers")
	rules.Byzantine = rapid.IntRange(0, 1+min(2*lies, 2)).Draw(t, "byzantine") > 0
	rules.AuditSamples = 8 * rapid.IntRange(0, 1).Draw(t, "audits")
	rules.Private = rapid.Bool().Draw(t, "private")
	rules.MaxStaleness = rapid.Uint64Range(0, 1).Draw(t, "staleness")
	rules.Fragments = labFragments(rapid.IntRange(1, 3).Draw(t, "fragments"))
	if len(rules.Fragments) > 1 { // as Spec.Validate has it
		rules.MaxStaleness = 0
	}
	rules.NewcomerShare, rules.StartPeers = 500, 1 // fewer might be left than are to begin
	if rapid.Bool().Draw(t, "forks") {
		timing.ForkAfter = time.Duration(rapid.IntRange(20, 40).Draw(t, "fork after, tenths")) * 100 * time.Millisecond
	} else {
		rules.StartPeers = rapid.IntRange(1, first).Draw(t, "start peers")
	}
	rules.MinPeers = rapid.IntRange(1, min(2, rules.StartPeers)).Draw(t, "min peers")
	if lies > 0 {
		// else anybody may found it again (a9)
		rules.StartPeers, rules.Founders = first, []slot.PeerID{labID("A")}
	}
	w := &chaos{lab: newLab(t, rules, timing), first: first}
	if lies > 0 && rules.AuditSamples > 0 {
		w.audits.padding = ungossiped * rapid.IntRange(0, 1).Draw(t, "large proofs")
	}
	w.keep = randomPlants[os.Getenv(plantVariable)]
	w.shuffle(rapid.IntRange(0, 7).Draw(t, "order"))
	w.open = rapid.Bool().Draw(t, "open")
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	for i := range first {
		w.add(string(rune('A' + i))).slowness = time.Duration(btoi(timing.ForkAfter > 0)) * 600 * time.Millisecond
	}
	w.connect()
	if lies > 0 {
		w.turnHostile(t, lies, rng)
	}
	w.delays = func() []time.Duration { return someDelays(rng) }
	return w
}

// turnHostile has members lie, once the run has decided a step: before that a second founding may
// win over it, whoever decided it.
func (w *chaos) turnHostile(t *rapid.T, n int, rng *rand.Rand) {
	w.awaits(t, "the run is founded", func() bool {
		return !slices.ContainsFunc(w.peers, func(p *labPeer) bool {
			v := p.m.View()
			return len(v.Tip.Members) < w.first || len(v.Tip.Electors()) < 3*n+1 || v.AppliedSlot < 1 ||
				v.Applied < v.Tip.Height
		})
	})
	electors := rapid.Permutation(w.peers[0].m.chain.Electorate()).Draw(t, "liars")
	for _, e := range electors[:n] {
		p := w.peer(labName(e.Peer))
		newLabLiar(p, rng.Uint64())
		w.liars = append(w.liars, p)
	}
	w.off = !w.rules.Byzantine
}

// someDelays loses one message in twenty, repeats one in twenty, and holds one in ten up for long.
func someDelays(rng *rand.Rand) []time.Duration {
	d := time.Duration(5+rng.IntN(60)) * time.Millisecond
	switch rng.IntN(20) {
	case 0:
		return nil
	case 1:
		return []time.Duration{d, 3 * d}
	case 2, 3:
		return []time.Duration{20 * d}
	}
	return []time.Duration{d}
}

// one draws a peer for which ok holds. Nil if there is none.
func (w *chaos) one(t *rapid.T, ok func(*labPeer) bool) *labPeer {
	var fit []string
	for _, p := range w.peers {
		if ok(p) {
			fit = append(fit, p.name)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return w.peer(rapid.SampledFrom(fit).Draw(t, "peer"))
}

func (w *chaos) pass(t *rapid.T) {
	d := time.Duration(rapid.IntRange(1, 40).Draw(t, "tenths")) * 100 * time.Millisecond
	w.rests(d)
}

// stops draws a peer to be stopped. Liars go on; and beside them one peer at a time is down, for
// those that are down are dropped, and then the liars are too many.
func (w *chaos) stops(t *rapid.T) *labPeer {
	down := slices.ContainsFunc(w.peers, func(p *labPeer) bool { return !p.up() && !p.gone })
	if len(w.liars) > 0 && down {
		return nil
	}
	return w.one(t, func(p *labPeer) bool { return p.up() && p.lies == nil })
}

func (w *chaos) crash(t *rapid.T) {
	if p := w.stops(t); p != nil {
		p.crash()
	}
}

// power has a peer lose power at one of the next operations of its disk.
func (w *chaos) power(t *rapid.T) {
	if p := w.stops(t); p != nil {
		at := rapid.SampledFrom([]powerfs.Cut{powerfs.Before, powerfs.After}).Draw(t, "cut")
		p.cutPower(rapid.IntRange(0, 20).Draw(t, "operations"), at, rapid.Uint64Range(0, 9).Draw(t, "unsynced"))
	}
}

// restart starts a peer that is down, or one that runs anew.
func (w *chaos) restart(t *rapid.T) {
	if p := w.one(t, func(p *labPeer) bool { return !p.gone && p.lies == nil }); p != nil {
		p.start()
		w.connect()
	}
}

// format restarts a peer that is down with an empty disk.
func (w *chaos) format(t *rapid.T) {
	if p := w.one(t, func(p *labPeer) bool { return !p.up() && !p.gone }); p != nil {
		p.crash()
		p.format()
		p.start()
		w.connect()
	}
}

// jump lets a peer's clock go ahead, as after a pause of its machine.
func (w *chaos) jump(t *rapid.T) {
	if p := w.one(t, (*labPeer).up); p != nil {
		p.ahead += time.Duration(rapid.IntRange(1, 100).Draw(t, "tenths")) * 100 * time.Millisecond
	}
}

func (w *chaos) cut(t *rapid.T) {
	a, b := w.one(t, (*labPeer).up), w.one(t, (*labPeer).up)
	if a != nil && a != b {
		w.filters = append(w.filters, &labFilter{from: a.name, to: b.name, left: -1})
		if rapid.Bool().Draw(t, "both ways") {
			w.filters = append(w.filters, &labFilter{from: b.name, to: a.name, left: -1})
		}
		w.connect()
	}
}

// part cuts the peers into two groups.
func (w *chaos) part(t *rapid.T) {
	var here, there []string
	for _, p := range w.peers {
		if rapid.Bool().Draw(t, p.name) {
			here = append(here, p.name)
		} else {
			there = append(there, p.name)
		}
	}
	if len(here) == 0 || len(there) == 0 {
		return
	}
	a, b := strings.Join(here, ","), strings.Join(there, ",")
	w.filters = []*labFilter{{from: a, to: b, left: -1}, {from: b, to: a, left: -1}}
	w.connect()
}

func (w *chaos) heal(*rapid.T) {
	w.filters = nil
	w.connect()
}

func (w *chaos) join(t *rapid.T) {
	if n := len(w.peers); n < w.first+4 {
		p := w.add(string(rune('A' + n)))
		if rapid.IntRange(0, 2).Draw(t, "trains") == 0 {
			train(false, p)
		}
		w.connect()
	}
}

func (w *chaos) leave(t *rapid.T) {
	stay := w.rules.StartPeers
	if len(w.liars) > 0 {
		stay = 5 + len(w.liars)
	}
	if w.staying(func(p *labPeer) bool { return !p.gone }) <= stay {
		return
	}
	if p := w.one(t, func(p *labPeer) bool { return p.up() && !p.gone && p.lies == nil }); p != nil {
		p.gone = true
		p.report(ReportLeave{})
	}
}

// die ends a peer for good where others fork without it, unless it is the last one.
func (w *chaos) die(t *rapid.T) {
	living := slices.DeleteFunc(slices.Clone(w.peers), func(p *labPeer) bool { return p.gone })
	if len(living) < 2 || len(w.liars) > 0 || w.timing.ForkAfter == 0 || rapid.IntRange(0, 2).Draw(t, "dies") > 0 {
		return
	}
	if p := w.one(t, func(p *labPeer) bool { return !p.gone }); p != nil {
		p.gone = true
		p.crash()
	}
}

// staying counts the peers among some that nobody takes for removed: the run starts with so many at
// most.
func (w *chaos) staying(of func(*labPeer) bool) (n int) {
	for _, p := range w.peers {
		n += btoi(of(p) && !w.removed(p))
	}
	return n
}

// removed says whether a peer that stays takes another one for removed. One that leaves may do so
// on a branch of its own, which the others never see.
func (w *chaos) removed(p *labPeer) bool {
	return slices.ContainsFunc(w.peers, func(q *labPeer) bool {
		return q.up() && !q.gone && q.m.motions.barred(p.id)
	})
}

func (w *chaos) slow(t *rapid.T) {
	if p := w.one(t, (*labPeer).up); p != nil {
		p.slowness = time.Duration(rapid.IntRange(0, 40).Draw(t, "tenths")) * 100 * time.Millisecond
	}
}

func (w *chaos) breakDown(t *rapid.T) {
	if p := w.one(t, (*labPeer).up); p != nil {
		p.broken = !p.broken
	}
}

// want has some operators order a peer out, or back in, or another secret.
func (w *chaos) want(t *rapid.T) {
	of := w.one(t, func(p *labPeer) bool { return p.up() })
	if of == nil || of.m.chain.Height() == 0 {
		return
	}
	o := slot.Motion{Action: slot.Remove, Peer: of.id}
	if of.m.chain.Access().Removed(of.id) {
		o.Action = slot.Readmit
	} else if w.rules.Private && rapid.Bool().Draw(t, "rotates") {
		o = slot.Motion{Action: slot.Rotate}
	}
	for _, p := range w.peers {
		if p.up() && (p != of || o.Action == slot.Rotate) && rapid.IntRange(0, 3).Draw(t, "agrees") > 0 {
			o.Turn = p.m.Access(o.Peer).Turn
			p.want(o)
		}
	}
}

// sumUp counts what came of the worlds.
func (w *chaos) sumUp(sum map[string]int, heard lieCounts) {
	trust := map[bool]string{true: "byzantine ", false: "crash "}[w.rules.Byzantine]
	sum[trust+fmt.Sprint(len(w.liars), " liars")]++
	sum[trust+"off"] += btoi(w.off)
	for _, p := range w.liars {
		sum["lies"] += p.lies.told
		heard.sum(p.lies)
		sum["forgers"] += btoi(w.rules.Audits() && p.auditor.forges)
	}
	for _, line := range w.log {
		sum["power cuts"] += btoi(strings.HasSuffix(line, "loses power"))
	}
	sum["audits"] += w.audits.seen
	sum["lies found"] += w.audits.found
	sum["contributions hidden"] += w.audits.dark
	if p := w.newest(); p != nil {
		sum["slots"] += int(p.m.chain.Tip().Slot)
		sum["most electors"] = max(sum["most electors"], len(p.m.chain.Electorate()))
	}
}

// setFlag sets a flag until the test ends.
func setFlag(t *testing.T, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	before := f.Value.String()
	if err := f.Value.Set(value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Value.Set(before) })
}
