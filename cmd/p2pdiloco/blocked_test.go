//go:build unix

package main

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// fullPipe is a pipe that takes nothing more: nobody reads it.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	if err := w.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	for size := 1 << 16; size > 0; size /= 2 { // to the last byte
		for err = nil; err == nil; {
			_, err = w.Write(make([]byte, size))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	return w
}

// A pager that nobody scrolls, a screen in copy mode, a log collector that hangs: the peer goes on
// with the run, and a signal ends it. It stood still in its ledger's loop, heard and mute, and only
// SIGKILL ended it.
func TestAPeerWhoseOutputNobodyReads(t *testing.T) {
	t.Parallel()
	home, events := t.TempDir(), filepath.Join(t.TempDir(), "events")
	args := append([]string{
		"join", "--run", swarm.RunName("test"), "--rounds", "1000000", "--inner-steps", "1", "--step-time", "20ms",
		"--outer", "sgd", "--start-peers", "2", "--preset", "lan", "--data", smallData(t), "--log-level", "debug",
	}, onLoopback...)
	p := clitest.New(t, home, append(args, "--events", events, "--data-dir", filepath.Join(home, "mute"))...)
	pipe := fullPipe(t)
	p.Stdout, p.Stderr = pipe, pipe
	p.Begin(t)
	other := clitest.Start(t, home, append(args, "--data-dir", filepath.Join(home, "other"))...)
	clitest.AwaitEvent(t, events, "the third slot", func(e eventlog.Line) bool {
		return e.Event == "slot.applied" && e.Slot == 3
	})
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan int, 1)
	go func() { ended <- p.Ends(t) }()
	select {
	case code := <-ended:
		if code != cli.ExitOK {
			t.Errorf("exit %d", code)
		}
	case <-time.After(60 * time.Second):
		t.Error("a signal does not end it")
		_ = p.Process.Kill()
		<-ended
	}
	if err := other.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := other.Ends(t); code != cli.ExitOK || !strings.Contains(other.Err.String(), "left the run") {
		t.Errorf("the other one: exit %d", code)
	}
}

// The terminal of a peer is closed, or what reads its output ends: at the first it leaves, as at
// SIGTERM, and the second it outlives. Both ended it as a crash.
func TestAPeerWhoseTerminalIsClosedLeaves(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("the tests run under nohup: no program gets this signal")
	}
	t.Parallel()
	home, events := t.TempDir(), filepath.Join(t.TempDir(), "events")
	p := clitest.New(t, home, append([]string{
		"join", "--run", swarm.RunName("test"), "--rounds", "1000000", "--inner-steps", "1", "--step-time", "20ms",
		"--preset", "lan", "--data", smallData(t), "--events", events, "--log-level", "debug",
	}, onLoopback...)...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Stdout, p.Stderr = w, w
	p.Begin(t)
	if err := errors.Join(w.Close(), r.Close()); err != nil { // tee has ended
		t.Fatal(err)
	}
	clitest.AwaitEvent(t, events, "the third slot", func(e eventlog.Line) bool {
		return e.Event == "slot.applied" && e.Slot == 3
	})
	for range 2 {
		if err := p.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	if code := p.Ends(t); code != cli.ExitOK {
		t.Errorf("exit %d", code)
	}
}
