//go:build cgo && unix

package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCancel: inner steps end when ctx does; with a library that is deaf to it, Train still
// returns, and Close ends it.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, lib := range []struct{ name, config string }{
		{"bowl", `{"size": 10, "pause_ms": 1}`},
		{"bad", `{"size": 10, "how":"deaf", "in":"run"}`},
	} {
		p := open(t, lib.name, lib.config)
		if lib.name == "bad" {
			p.cfg.Timeout = 200 * time.Millisecond // bounds the wait of Close
		}
		x := started(t, p)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for p.StepsDone() == 0 {
				select {
				case <-time.After(time.Millisecond):
				case <-t.Context().Done():
				}
			}
			cancel()
		}()
		if _, err := p.Train(ctx, task(1, 1_000_000)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", lib.name, err)
		}
		if lib.name == "bowl" {
			if err := p.Load(t.Context(), x); err != nil {
				t.Errorf("after a cancel: %v", err)
			}
			if _, err := p.Train(t.Context(), task(2, 2)); err != nil {
				t.Errorf("the run after the one that was cancelled: %v", err)
			}
		} else if soon, stop := context.WithTimeout(t.Context(), 10*time.Millisecond); p.Load(soon, x) == nil {
			stop()
			t.Error("a call began while another one was under way")
		} else {
			stop()
			if err := p.Save(t.Context(), "x"); err == nil ||
				!strings.HasSuffix(err.Error(), ": save: the request before has not ended") {
				t.Errorf("save beside a run: %v", err)
			}
		}
		if err := p.Close(); err != nil {
			t.Errorf("%s: close: %v", lib.name, err)
		}
	}
}

// TestCancelWithinAStep: a cancel reaches the library however long a step takes.
func TestCancelWithinAStep(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"run", "evaluate"} {
		p := open(t, "bad", `{"size": 10, "how":"waits from-slot-3", "in":"`+in+`"}`)
		x := started(t, p)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for !strings.HasPrefix(p.doing(), in) {
				select {
				case <-time.After(time.Millisecond):
				case <-t.Context().Done():
				}
			}
			cancel()
		}()
		var err error
		if in == "run" {
			_, err = p.Train(ctx, task(3, 5))
		} else {
			_, err = p.Evaluate(ctx)
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", in, err)
		}
		if err := p.Load(t.Context(), x); err != nil {
			t.Errorf("after a cancel of %s: %v", in, err)
		}
		if _, err := p.Train(t.Context(), task(1, 2)); err != nil {
			t.Errorf("the run after a cancel of %s: %v", in, err)
		}
	}
}

// TestOpenIsInterrupted: a peer that ends while the library makes its trainer does not wait for
// that.
func TestOpenIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := Open(ctx, config(t, "bad", `{"how":"hang", "in":"create"}`))
	if spent := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || spent > closeGrace*2/3 {
		t.Errorf("after %v: %v", spent, err)
	}
}

// TestPeerDies: a host whose peer was killed ends, although its trainer would never, and so does
// what the trainer started.
func TestPeerDies(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), asPeer+"="+library("bad"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(line, &pid); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for deadline := time.Now().Add(20 * time.Second); running(pid) || groupRuns(pid); {
		if time.Now().After(deadline) {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
			t.Fatalf("process %d, or one of its group, outlives its peer", pid)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// running says whether a process is there and is no zombie.
func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !errors.Is(err, os.ErrNotExist)
	}
	_, state, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(state, "Z")
}

// groupRuns says whether a process group has a member that is no zombie: what nobody has reaped yet
// is gone all the same.
func groupRuns(group int) bool {
	if syscall.Kill(-group, 0) != nil {
		return false
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return true // there is no such place to look
	}
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		var state string
		var parent, of int
		if _, err := fmt.Sscan(rest, &state, &parent, &of); err == nil && of == group && state != "Z" {
			return true
		}
	}
	return false
}
