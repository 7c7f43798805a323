//go:build unix

package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// backWithin is how long a box may take from a kill until it trains again, the slots without it
// included.
const backWithin = 30 * time.Second

// hurtBox is a node and its ranks, of which some are killed.
type hurtBox struct {
	*launcher
	home string
	args []string
	node *clitest.Program
	last time.Time // when it was hurt, or was started

	before int // loads of these ranks before their node was killed
}

func newHurtBox(t *testing.T, home string, args []string) *hurtBox {
	dir := filepath.Join(home, "box")
	b := &hurtBox{
		launcher: newLauncher(t, home, dir), home: home, last: time.Now(),
		args: append(slices.Clone(args), "--data-dir", dir, "--trainer", "attach"),
	}
	b.begin()
	return b
}

func (b *hurtBox) begin() { b.node = clitest.Start(b.t, b.home, b.args...) }

// kill kills a rank, or, where there is none of that number, the node.
func (b *hurtBox) kill(victim int) {
	b.last = time.Now()
	if victim < len(b.ranks) {
		_ = b.ranks[victim].Process.Kill()
	} else {
		_ = b.node.Process.Kill()
		_ = b.node.Wait()
	}
}

// over waits until all ranks have ended: they are told that one is gone, or that the node is. Those
// that wait for other ranks, or for a node, are ended, if alone is set. Then a node that was killed
// is started again.
func (b *hurtBox) over(alone bool) {
	b.t.Helper()
	for _, c := range b.ranks {
		if alone {
			_ = c.Process.Kill()
		}
	}
	b.stop()
	if b.node.ProcessState != nil {
		b.begin()
	}
}

// back waits until the box trains, and checks that it took no longer than it may.
func (b *hurtBox) back() {
	b.t.Helper()
	clitest.Until(b.t, "a load of the box", func() bool { return b.loaded() > b.before+2 })
	b.before = 0
	took := time.Since(b.last)
	if b.t.Logf("the box is back after %v", took); took > backWithin {
		b.t.Errorf("the box is back after %v, more than %v\n%s", took, backWithin, b.said())
	}
}

// TestBoxesSurviveKills kills, at random moments, the node or a rank of a box of two ranks, again
// and again: while it trains, and while it starts, attaches, joins and loads for the first time.
// The run's other peer goes on without it, the box comes back, no rank ever loads a torn anchor,
// and both end with one model. By day that is tried in one mode, at night in all.
func TestBoxesSurviveKills(t *testing.T) {
	t.Parallel()
	modes := []string{"sync", "delayed", "eager", "async", "streaming"}
	if i := testutil.Random(t).IntN(len(modes)); !testutil.Nightly() {
		modes = modes[i : i+1]
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			survive(t, mode, testutil.Choose(1, 2, 40))
		})
	}
}

func survive(t *testing.T, mode string, kills int) {
	t.Helper()
	home := t.TempDir()
	events := filepath.Join(home, "events")
	args := boxes(60*kills, 1, "--mode", mode, "--momentum", "0")
	// until the last kill the other one takes .5 s for each slot, or the run might end before a box
	// is back: on a busy machine the box's three processes take seconds to start
	log := filepath.Join(home, "other")
	write(t, log+slow, "")
	other := clitest.Start(t, home, append(append(slices.Clone(args), "--events", events, "--"),
		rankCommand(t, 0, 1, 1, log)...)...)
	clitest.Await(t, events, "run.founded")
	box := newHurtBox(t, home, args)
	random := testutil.Random(t)
	for range kills {
		box.start()
		early := random.IntN(2) == 0
		if early {
			time.Sleep(time.Duration(random.IntN(1200)) * time.Millisecond) // the moment is random
		} else {
			box.back()
			time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
		}
		victim := min(random.IntN(4), 2) // half of them are of the node
		t.Logf("kill %s after %d loads", []string{"rank 0", "rank 1", "the node"}[victim], box.loaded())
		box.kill(victim)
		box.over(early)
		before := len(loads(t, log))
		clitest.Until(t, "slots without the box", func() bool { return len(loads(t, log)) > before+2 })
	}
	box.start()
	box.back()
	box.hold(staying) // at last its ranks outlive the node
	box.killNode(random, 300*time.Millisecond)
	box.back()
	remove(t, log+slow)
	if got, want := box.ends(), read(t, other); got != want.StateRoot {
		t.Errorf("the box ends with %s, the other one with %s\n%s", got, want.StateRoot, box.said())
	}
	losesAtMost(t, events, kills+1)
}

// longestSlot is how long a slot may take in which a box is killed, or is away: others that do not
// see that it is gone wait for it longer.
const longestSlot = 10 * time.Second

// losesAtMost checks, in its events, that a peer has applied all slots in turn, each within its
// time, and that at most so many of them are without its contribution.
func losesAtMost(t *testing.T, events string, most int) {
	t.Helper()
	self, applied, without := "", uint64(0), 0
	var at time.Time
	var longest time.Duration
	for _, e := range lines(t, events) {
		switch e.Event {
		case "peer.started":
			self = e.PeerID
		case "slot.committed":
			if !strings.Contains(string(e.Contributors), self) {
				without++
			}
		case "slot.applied":
			if e.Slot != applied+1 {
				t.Errorf("slot %d is applied after slot %d", e.Slot, applied)
			}
			if applied > 0 {
				longest = max(longest, e.Time.Sub(at))
			}
			applied, at = e.Slot, e.Time
		case "state.synced", "state.diverged", "run.paused", "run.switched":
			t.Errorf("%+v", e)
		}
	}
	t.Logf("of %d slots the other peer is not in %d; the longest took %v", applied, without, longest)
	if self == "" || applied == 0 || without > most || longest > longestSlot {
		t.Errorf("the other peer lost %d slots of %d by %d kills, and a slot took %v", without, applied, most, longest)
	}
}

// TestABoxSurvivesEarlyKills kills each process of a box that founds the run: while the ranks
// gather, while they fill in the initial parameters, and while they load them for the first time.
// Nothing half done is taken for the run's initial model. By day one is killed at each moment.
func TestABoxSurvivesEarlyKills(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	args := boxes(60, 1)
	box := newHurtBox(t, home, args)
	for i, moment := range []string{gathering, filling, loading} {
		for victim := range 3 {
			if victim != i && !testutil.Nightly() {
				continue
			}
			box.hold(moment)
			box.start()
			box.held(moment)
			box.kill(victim)
			box.release(moment)
			box.over(moment == gathering && victim == 2) // they would wait for the next node
		}
	}
	initial := make([]float32, 253)
	must(t, new(attachtest.Toy).Init(context.Background(), initial))
	for _, line := range loads(t, box.logs[0]) {
		if at, sum, _ := strings.Cut(line, "="); sum != checksum(initial) {
			t.Errorf("at %s, before the first slot, the anchor is %s", at, sum)
		}
	}
	// until the other one is there
	write(t, box.logs[0]+slow, "")
	box.start()
	box.back()
	events := filepath.Join(home, "events")
	other := clitest.Start(t, home, append(append(slices.Clone(args), "--events", events, "--"),
		rankCommand(t, 0, 1, 1, filepath.Join(home, "other"))...)...)
	clitest.Await(t, events, "slot.applied")
	remove(t, box.logs[0]+slow)
	if got, want := box.ends(), read(t, other); got != want.StateRoot {
		t.Errorf("the box ends with %s, the other one with %s\n%s", got, want.StateRoot, box.said())
	}
}
