//go:build unix

package main

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// fullPipe is a pipe that takes nothing more: nobody reads it.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	must(t, w.SetWriteDeadline(time.Now().Add(time.Second)))
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
// with the run, and a signal ends it. It stood still in its ledger's loop, and only SIGKILL ended
// it. What reads its output may end, which it outlives, and its terminal may be closed: then it
// leaves, as at SIGTERM. Both ended it as a crash.
func TestAPeerWhoseOutputNobodyReads(t *testing.T) {
	t.Parallel()
	r, gone, err := os.Pipe()
	must(t, err)
	for name, c := range map[string]struct {
		output *os.File
		reader *os.File // closed once the peer has its output
		ends   []syscall.Signal
	}{
		"a full pipe":       {fullPipe(t), nil, []syscall.Signal{syscall.SIGTERM}},
		"a closed terminal": {gone, r, []syscall.Signal{syscall.SIGHUP, syscall.SIGHUP}},
	} {
		t.Run(name, func(t *testing.T) {
			if signal.Ignored(c.ends[0]) {
				t.Skip("the tests run under nohup: no program gets this signal")
			}
			t.Parallel()
			events := filepath.Join(t.TempDir(), "events")
			p := clitest.New(t, t.TempDir(), append([]string{
				"join", "--run", lab.RunName("test"), "--rounds", "1000000", "--inner-steps", "1", "--step-time",
				"20ms", "--preset", "lan", "--data", smallData(t), "--events", events, "--log-level", "debug",
			}, onLoopback...)...)
			p.Stdout, p.Stderr = c.output, c.output
			p.Begin(t)
			if c.reader != nil {
				must(t, errors.Join(c.output.Close(), c.reader.Close()))
			}
			applies(t, events, 3)
			for _, s := range c.ends {
				p.Signal(t, s)
			}
			late := time.AfterFunc(time.Minute, func() { _ = p.Process.Kill() })
			defer late.Stop()
			p.Exits(t, cli.ExitOK)
		})
	}
}
