//go:build unix

package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

func TestStoodStill(t *testing.T) {
	for _, c := range []struct{ monotonic, wall, want time.Duration }{
		{time.Second, time.Second, 0},
		{4 * time.Second, 4 * time.Second, 0},
		{9 * time.Second, 9 * time.Second, 8 * time.Second}, // SIGSTOP
		{time.Second, time.Hour + time.Second, time.Hour},   // a lid
		{time.Second, -time.Hour, 0},                        // a clock that is put right
	} {
		if got := stoodStill(c.monotonic, c.wall); got != c.want {
			t.Errorf("%v, %v: %v, want %v", c.monotonic, c.wall, got, c.want)
		}
	}
}

// TestALaptopThatSleeps stops a peer's process until the others have left it out and train on, and wakes it: it gets what it missed, is a
// member again, contributes, and says what happened.
func TestALaptopThatSleeps(t *testing.T) {
	t.Parallel()
	home, away, data := t.TempDir(), t.TempDir(), smallData(t)
	founder, events := startPeer(t, home, data, "--run", swarm.RunName("test"), "--rounds", "100000", "--inner-steps", "2", "--outer", "sgd")
	awaitEvent(t, events, "the first slot", named("slot.applied"))
	laptop, own := startPeer(t, away, data, invited(t, home))
	id := awaitEvent(t, own, "the laptop's start", named("peer.started")).PeerID
	contributes := func(after uint64) func(eventlog.Line) bool {
		return func(e eventlog.Line) bool {
			return e.Event == "slot.committed" && e.Slot > after && strings.Contains(string(e.Contributors), id)
		}
	}
	awaitEvent(t, events, "the laptop's first contribution", contributes(0))

	if err := laptop.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	lost := awaitEvent(t, events, "its loss", func(e eventlog.Line) bool { return e.Event == "peer.left" && e.About == id })
	without := awaitEvent(t, events, "a slot without it", func(e eventlog.Line) bool {
		return e.Event == "slot.committed" && e.Time.After(lost.Time) && !slices.Contains(e.Members, id)
	})
	awake := without.Time.Add(longPause + 2*lookAtClock) // its own word comes of a pause that long
	until(t, "some sleep", func() bool { return time.Now().After(awake) })
	if err := laptop.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	awaitEvent(t, events, "a contribution after its sleep", contributes(without.Slot))
	awaitEvent(t, own, "what it missed", func(e eventlog.Line) bool { return e.Event == "slot.applied" && e.Slot > without.Slot })
	leave(t, laptop, founder)
	if said := laptop.stderr.String(); !strings.Contains(said, "this peer did not run for") || !strings.Contains(said, "the others went on without this peer") {
		t.Errorf("it said\n%s", said)
	}
}
