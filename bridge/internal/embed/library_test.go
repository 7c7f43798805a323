package embed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
)

func TestCodesAreTheHeaders(t *testing.T) {
	header, err := os.ReadFile("../../include/p2pdiloco.h")
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]Code{
		"OK": OK, "ERROR": Failed, "AGAIN": Again, "ENDED": Ended, "CLOSED": Closed, "BUSY": Busy, "INVALID": Invalid,
		"NOT_FINITE": NotFinite,
		"FORKED":     Forked, "MISSED": Missed, "BRANCH_ENDED": BranchEnded,
	}
	theirs := regexp.MustCompile(`\tP2PDILOCO_(\w+) = (\d+),`).FindAllStringSubmatch(string(header), -1)
	if len(theirs) != len(ours) {
		t.Errorf("the header has %d codes, this package %d", len(theirs), len(ours))
	}
	for _, c := range theirs {
		if n, _ := strconv.Atoi(c[2]); ours[c[1]] != Code(n) {
			t.Errorf("%s is %s in the header, %d here", c[1], c[2], ours[c[1]])
		}
	}
}

func TestTextsAreOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb":                     "a; b",
		"\n a\r\n\x00b\n":          "a; b",
		"bad \xff byte":            "bad ? byte",
		strings.Repeat("x", 10000): strings.Repeat("x", maxText) + " …",
		strings.Repeat("é", 10000): strings.Repeat("é", maxText/2) + " …",
	} {
		if got := Text(errors.New(text)); got != want {
			t.Errorf("%.20q became %.40q", text, got)
		}
	}
	for _, err := range []error{nil, errAgain, p2pdiloco.ErrRunEnded} {
		if text := Text(err); text != "" {
			t.Errorf("%v has the text %q", err, text)
		}
	}
}

func TestWrongHandles(t *testing.T) {
	l, closed := joined(t, &fake{})
	want(t, OK, l.Close(closed))
	v := make([]float32, 4)
	for _, h := range []int64{0, -1, 99, closed} {
		_, status := l.Status(h)
		_, event := l.Event(99, -1)
		for name, err := range map[string]error{
			"anchor": anchorErr(l, h, -1), "sync": l.Sync(h, v, 1), "begin": l.Begin(h, v, 1), "poll": l.Poll(h, -1),
			"finish":   finishErr(l, h, -1),
			"progress": l.Progress(h, 1), "status": status, "event": event, "leave": l.Leave(h, -1),
		} {
			if CodeOf(err) != Closed || !strings.Contains(Text(err), "no such node") {
				t.Errorf("%s of handle %d: %v", name, h, err)
			}
		}
		want(t, OK, l.Close(h))
	}
}

func TestHandlesAreNeverUsedTwice(t *testing.T) {
	l, h := joined(t, &fake{})
	seen := map[int64]bool{h: true}
	for range 40 {
		f := &fake{joined: make(chan struct{}), closed: make(chan struct{})}
		l.open = func(*settings.Settings, peer.Options) (host, error) { return f, nil }
		next, err := l.Join(config, nil)
		if err != nil || next == 0 || seen[next] {
			t.Fatalf("handle %d, %v", next, err)
		}
		seen[next] = true
		want(t, OK, l.Close(next))
	}
	if n := len(l.mu.past); n != maxPast {
		t.Errorf("the events of %d closed nodes are kept", n)
	}
	want(t, OK, anchorErr(l, h, -1))
}

func TestCloseEndsCallsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, call := range []func(*Library, int64) error{
			func(l *Library, h int64) error { return anchorErr(l, h, -1) },
			func(l *Library, h int64) error { return l.Sync(h, make([]float32, 4), 1) },
			func(l *Library, h int64) error {
				want(t, OK, l.Begin(h, make([]float32, 4), 1))
				return finishErr(l, h, 3_600_000)
			},
			func(l *Library, h int64) error {
				want(t, OK, l.Begin(h, make([]float32, 4), 1))
				return l.Poll(h, -1)
			},
			func(l *Library, h int64) error { _, _ = l.Event(h, -1); _, err := l.Event(h, -1); return err },
		} {
			f := &fake{}
			l, h := joined(t, f)
			f.member = make(chan struct{}) // and now it is none any more
			waiting := make(chan error)
			go func() { waiting <- call(l, h) }()
			synctest.Wait()
			want(t, OK, l.Close(h))
			want(t, Closed, <-waiting)
		}
	})
}

func TestCloseBeforeTheRunIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := with(t, &fake{}, []float32{1, 2, 3, 4})
		waiting := make(chan error)
		go func() { waiting <- anchorErr(l, h, -1) }()
		synctest.Wait()
		want(t, OK, l.Close(h))
		want(t, Closed, <-waiting)
	})
}

func TestARunThatCannotBeJoined(t *testing.T) {
	spec := &p2pdiloco.SpecError{Field: "inner_steps", Here: "5", There: "7"}
	for code, err := range map[Code]error{
		Invalid: fmt.Errorf("refused: %w", spec),
		Failed:  errors.New("no network\nat all"),
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{refused: err}
			l, h := with(t, f, nil)
			close(f.joined)
			want(t, code, anchorErr(l, h, -1))
			want(t, code, anchorErr(l, h, 0)) // it stays so
			_, _ = l.Event(h, -1)
			_, last := l.Event(h, -1)
			want(t, Closed, last)
			if s, _ := l.Status(h); !strings.Contains(s, `"phase":"closed"`) || !strings.Contains(s, `"reason":`) {
				t.Error(s)
			}
			want(t, OK, l.Leave(h, -1))
		})
	}
}

// What ended by itself is no CLOSED: nobody closed it, and the text says why.
func TestANodeThatEndedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		l, h := joined(t, f)
		f.err = fmt.Errorf("disk full (%w)", p2pdiloco.ErrClosed)
		if err := l.Begin(h, make([]float32, 4), 1); CodeOf(err) != Failed ||
			!strings.Contains(Text(err), "disk full") {
			t.Error(err)
		}
	})
}

func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		l, h := joined(t, f)
		left := make(chan error)
		go func() { left <- l.Leave(h, -1) }()
		synctest.Wait()
		want(t, Closed, anchorErr(l, h, -1))
		want(t, Closed, l.Leave(h, -1)) // somebody does already
		if _, err := l.Status(h); err != nil {
			t.Error(err)
		}
		close(f.farewell)
		want(t, OK, <-left)
		_, err := l.Status(h)
		want(t, Closed, err)
	})
}

func TestLeaveWhenNobodyAgrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := joined(t, &fake{})
		began := time.Now()
		err := l.Leave(h, 700)
		if want(t, Failed, err); !strings.Contains(Text(err), "within 700 ms") ||
			time.Since(began) != 700*time.Millisecond {
			t.Errorf("%q after %v", Text(err), time.Since(began))
		}
		want(t, Closed, l.Leave(h, 0))
	})
}

func TestCloseEndsALeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := joined(t, &fake{})
		left := make(chan error)
		go func() { left <- l.Leave(h, -1) }()
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- l.Close(h) }()
		want(t, Closed, <-left)
		want(t, OK, <-closed)
	})
}

func TestAPanicIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		l, h := joined(t, f)
		f.panics = true
		err := anchorErr(l, h, -1)
		if want(t, Failed, err); !strings.Contains(Text(err), "report it: broken") ||
			strings.Contains(Text(err), "\n") {
			t.Error(Text(err))
		}
		f.panics = false
		want(t, OK, anchorErr(l, h, -1)) // the vectors are free again
	})
}

func TestStatusAndProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		l, h := with(t, f, nil)
		synctest.Wait()
		want(t, OK, l.Progress(h, 1))
		text, err := l.Status(h)
		if err != nil || !strings.Contains(text, `"run":"test"`) || !strings.Contains(text, `"phase":"searching"`) {
			t.Errorf("%s, %v", text, err)
		}
		close(f.joined)
		synctest.Wait()
		if text, err = l.Status(h); err != nil || !strings.Contains(text, `"slot":7`) {
			t.Errorf("%s, %v", text, err)
		}
		want(t, OK, l.Progress(h, 1<<40))
		if f.steps != 1<<32-1 {
			t.Errorf("%d steps", f.steps)
		}
	})
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		l, h := joined(t, f)
		next := func(timeout int32) (fields map[string]any) {
			text, err := l.Event(h, timeout)
			if err := errors.Join(err, json.Unmarshal([]byte(text), &fields)); err != nil {
				t.Fatal(err)
			}
			return fields
		}
		if e := next(0); e["event"] != "peer.started" || e["events_lost"] != nil {
			t.Error(e)
		}
		_, err := l.Event(h, 10)
		want(t, Again, err)
		for i := range maxEvents + 3 {
			f.options.OnEvent(p2pdiloco.Event{Name: "e", Fields: map[string]any{"i": i}})
		}
		if e := next(-1); e["i"] != 3.0 || e["events_lost"] != 3.0 {
			t.Error(e)
		}
		for i := 4; i < maxEvents+3; i++ {
			if e := next(0); e["i"] != float64(i) || e["events_lost"] != nil {
				t.Fatal(i, e)
			}
		}
		waiting := make(chan map[string]any)
		go func() { waiting <- next(-1) }()
		synctest.Wait()
		f.options.OnEvent(p2pdiloco.Event{Name: "late"})
		if e := <-waiting; e["event"] != "late" {
			t.Error(e)
		}
		f.options.OnEvent(p2pdiloco.Event{Name: "last"})
		want(t, OK, l.Close(h))
		if e := next(-1); e["event"] != "last" {
			t.Error(e)
		}
		_, err = l.Event(h, -1)
		want(t, Closed, err)
	})
}

func TestConfigurations(t *testing.T) {
	for config, say := range map[string]string{
		"":                               "configuration",
		"{\"run\": \"\xff\"}":            "UTF-8",
		"[]":                             "configuration",
		`{}`:                             "which run?",
		`{"run": "x", "inner_stepz": 1}`: "inner_stepz",
		`{"run": "x", "model": "a=1"}`:   "your own loop trains",
		`{"run": "x", "layout": [{"name": "w", "shape": [2], "stride": 1}]}`: "stride",
		// Go would end the host
		`{"run": "x", "layout": [{"name": "w", "shape": [1099511627776]}]}`: "MiB of memory",
	} {
		if _, err := newLibrary().Join(config, nil); CodeOf(err) != Invalid || !strings.Contains(Text(err), say) {
			t.Errorf("%s: %d %q", config, CodeOf(err), Text(err))
		}
	}
}

// The environment is the host's of the moment, and a file of parameters that it names takes the
// place of join's.
func TestTheEnvironment(t *testing.T) {
	environ := []string{"P2PDILOCO_ROUNDS=many"}
	l := New(func() []string { return environ }, io.Discard)
	if _, err := l.Join(config, nil); CodeOf(err) != Invalid || !strings.Contains(Text(err), "P2PDILOCO_ROUNDS=many") {
		t.Errorf("%d %q", CodeOf(err), Text(err))
	}
	for _, file := range []string{"", "model.safetensors"} {
		environ = []string{"P2PDILOCO_INIT=" + file}
		f := &fake{joined: make(chan struct{}), closed: make(chan struct{})}
		l.open = func(_ *settings.Settings, o peer.Options) (host, error) { f.options = o; return f, nil }
		h, err := l.Join(config, make([]float32, 4))
		want(t, OK, err)
		if (f.options.Init == nil) != (file != "") {
			t.Errorf("with the file %q the parameters are used: %v", file, f.options.Init != nil)
		}
		want(t, OK, l.Close(h))
	}
}

// A library says nothing unless it is asked to.
func TestLogs(t *testing.T) {
	for level, logs := range map[string]bool{"": false, `, "log_level": "warn"`: true} {
		t.Setenv("XDG_STATE_HOME", t.TempDir())
		var log strings.Builder
		// of which it would warn
		l := New(func() []string { return []string{"P2PDILOCO_INNER_STEPZ=5"} }, &log)
		h, err := l.Join(`{"run": "quiet", "preset": "lan", "listen": ["/ip4/127.0.0.1/tcp/0"],
			"layout": [{"name": "w", "shape": [2]}]`+level+`}`, nil)
		want(t, OK, err)
		_, err = l.Event(h, -1)
		want(t, OK, err)
		want(t, OK, l.Close(h))
		if (log.Len() > 0) != logs {
			t.Errorf("with %q: %q", level, log.String())
		}
	}
}
