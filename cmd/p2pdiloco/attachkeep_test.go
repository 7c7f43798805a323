//go:build unix

package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// staysBox is a node and a rank that outlives it.
func staysBox(t *testing.T, home string, args []string) *hurtBox {
	t.Helper()
	b := newHurtBox(t, home, args)
	b.world, b.logs = 1, b.logs[:1]
	b.hold(staying)
	return b
}

// killNode kills the node, at a moment of its inner steps, and starts it again.
func (b *hurtBox) killNode(random *rand.Rand, most time.Duration) {
	b.t.Helper()
	steps := b.logs[0] + stepped
	before := len(loads(b.t, steps))
	clitest.Until(b.t, "the next first step", func() bool { return len(loads(b.t, steps)) > before })
	time.Sleep(time.Duration(random.Int64N(int64(most)))) // the moment is random
	b.before = b.loaded()
	b.kill(len(b.ranks))
	b.begin()
}

// stepsDone is how many steps the first rank has done in all.
func (b *hurtBox) stepsDone() (n int) {
	b.t.Helper()
	text, err := os.ReadFile(b.logs[0] + all)
	if err == nil {
		n, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	must(b.t, err)
	return n
}

// ends waits for the run's end, which all ranks have come to.
func (b *hurtBox) ends() (root string) {
	b.t.Helper()
	r := read(b.t, b.node)
	b.stop()
	for i, c := range b.ranks {
		if !c.ProcessState.Success() {
			b.t.Errorf("rank %d: %v\n%s", i, c.ProcessState, b.said())
		}
	}
	if !r.Ended || r.StateRoot == "" {
		b.t.Errorf("%+v", r)
	}
	b.untorn(1)
	return r.StateRoot
}

// TestRanksBeginTheRoundAgainWhenTheNodeIsKilled: in mode sync, a node is killed with -9 in the
// midst of its ranks' inner steps, and comes back with its directory before the slot is decided.
// The ranks load the anchor, and do the round again: no more is lost, and the run ends with the
// model of a run whose node was not killed, bit by bit.
func TestRanksBeginTheRoundAgainWhenTheNodeIsKilled(t *testing.T) {
	t.Parallel()
	const rounds, steps = 3, 40 // of 50 ms each, as long as the ranks are slow
	home := t.TempDir()
	args := func() []string { return boxes(rounds, 1, "--inner-steps", strconv.Itoa(steps)) }
	undisturbed := clitest.Start(t, t.TempDir(), append(append(args(), "--"),
		rankCommand(t, 0, 1, 3, filepath.Join(home, "undisturbed"))...)...)
	box := staysBox(t, home, args())
	box.hold(slow)
	box.start()
	random := testutil.Random(t)
	for range 2 {
		box.killNode(random, time.Second)
	}
	want, got := read(t, undisturbed), box.ends()
	if got != want.StateRoot {
		t.Errorf("it ends with %s, undisturbed with %s", got, want.StateRoot)
	}
	if done := box.stepsDone(); done <= rounds*steps || done >= (rounds+2)*steps {
		t.Errorf("they did %d steps for %d rounds of %d, with two kills", done, rounds, steps)
	}
}
