//go:build cgo && unix

package cgo

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
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
			p.(*library).cfg.Timeout = 200 * time.Millisecond // bounds the wait of Close
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
			if err := p.Save(t.Context(), filepath.Join(t.TempDir(), "x")); err == nil ||
				!strings.HasSuffix(err.Error(), ": save: the call before has not ended") {
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
			for !strings.HasPrefix(lastCall(p.(*library).cfg.DataDir), in) {
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
	cfg := config(t, "bad", `{"how":"slow", "in":"create"}`)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := Open(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > closeGrace*2/3 {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}
