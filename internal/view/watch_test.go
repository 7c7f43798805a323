package view

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func init() { testutil.OneCPU() }

// A watcher asks for the events after those that it has, goes on where a peer has none, and keeps
// what it knows, with the reason, while the peer does not answer.
func TestWatch(t *testing.T) {
	var asked []uint64
	var gone, old error
	w := NewWatcher(Source{
		Status: func(context.Context) (p2pdiloco.Status, error) { return p2pdiloco.Status{Run: "books"}, gone },
		Events: func(_ context.Context, after uint64) (api.Recent, error) {
			asked = append(asked, after)
			line := []byte(`{"time":"2026-01-02T03:04:05Z","event":"x"}`)
			return api.Recent{Events: []json.RawMessage{line, []byte(`{`)}, Next: after + 2}, old
		},
		Waits:    func(p2pdiloco.Status) string { return "" },
		Sentence: func(e p2pdiloco.Event) (string, bool) { return "it is " + e.Name, true },
	})
	next := func() (n Newest) {
		changed := w.Look(func(*Newest) {})
		w.ask(t.Context())
		<-changed
		w.Look(func(now *Newest) { n = *now })
		return n
	}
	n := next()
	events := n.events.listAfter(0)
	if len(events) != 1 || events[0].Text != "it is x" || !events[0].Grave || !n.Known {
		t.Errorf("%+v", n)
	}
	gone = errors.New("it has ended")
	if n = next(); n.Fault != "it has ended" || n.Run.Name != "books" {
		t.Errorf("%+v", n)
	}
	gone, old = nil, errors.New("404")
	if n = next(); n.Fault != "" || len(asked) != 2 || asked[1] != 2 {
		t.Errorf("%+v, asked for %v", n, asked)
	}
}

// A peer is asked each second, and a large run less often, until the context ends.
func TestHowOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for members, want := range map[int]int{1: 60, 500: 10} {
			asked := 0
			w := NewWatcher(Source{
				Status: func(context.Context) (p2pdiloco.Status, error) {
					asked++
					return p2pdiloco.Status{Members: make([]p2pdiloco.MemberStatus, members)}, nil
				},
				Waits: func(p2pdiloco.Status) string { return "" },
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute-time.Millisecond)
			w.Run(ctx)
			cancel()
			if asked != want {
				t.Errorf("%d members: asked %d times in a minute, want %d", members, asked, want)
			}
		}
	})
}
