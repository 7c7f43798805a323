package embed

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// Two real nodes, over loopback, with loops of their own: one by sync, one by begin and finish. No
// other process on the local network has their run.
func TestTwoNodesTrain(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	l := newLibrary()
	const settings = `{"run": "embedded-%d", "layout": [{"name": "w", "shape": [5, 3]}], "preset": "lan",
		"rounds": 3, "inner_steps": 10, "start_peers": 2, "min_peers": 2, "aggregator": "mean", "outer": "sgd",
		"outer_lr": "1", "listen": ["/ip4/127.0.0.1/tcp/0"], "bootstrap": %s}`
	first, err := l.Join(fmt.Sprintf(settings, os.Getpid(), "[]"), ones(15))
	want(t, OK, err)
	defer func() { want(t, OK, l.Close(first)) }()
	addrs, _ := json.Marshal(addrsOf(t, l, first))
	second, err := l.Join(fmt.Sprintf(settings, os.Getpid(), addrs), ones(15))
	want(t, OK, err)
	defer func() { want(t, OK, l.Close(second)) }()

	trained := make(chan []float32)
	for h, round := range map[int64]func(int64, []float32) error{
		first:  func(h int64, params []float32) error { return l.Sync(h, params, 1) },
		second: func(h int64, params []float32) error { return inParts(t, l, h, params) },
	} {
		go func() {
			params := make([]float32, 15)
			_, err := l.Anchor(h, params, -1)
			for err == nil {
				for i := range params {
					params[i] += float32(h)
				}
				err = round(h, params)
			}
			want(t, Ended, err)
			trained <- params
		}()
	}
	a, b := <-trained, <-trained
	for i := range a {
		if a[i] != 5.5 || b[i] != 5.5 { // 1 + 3 rounds of the mean of 1 and 2
			t.Fatalf("%v\n%v", a, b)
		}
	}
	want(t, OK, l.Leave(second, 10_000))
}

func inParts(t *testing.T, l *Library, h int64, params []float32) error {
	if err := l.Begin(h, params, 1); err != nil {
		return err
	}
	clear(params)
	want(t, OK, l.Poll(h, -1))
	_, err := l.Finish(h, params, -1)
	return err
}

func ones(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

// addrsOf waits until a node listens.
func addrsOf(t *testing.T, l *Library, h int64) []string {
	t.Helper()
	for {
		text, err := l.Event(h, 10_000)
		if want(t, OK, err); err != nil {
			t.FailNow()
		}
		var e struct {
			Event string
			Addrs []string
		}
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		if e.Event == "peer.started" {
			return e.Addrs
		}
	}
}
