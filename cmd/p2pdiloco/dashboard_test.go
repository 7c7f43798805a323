package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/local"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/statedir"
)

// apiIn serves an API in a data directory, as a peer does.
func apiIn(t *testing.T, dir string, c api.Content) {
	t.Helper()
	addr, err := api.ParseAddress(api.Socket(filepath.Join(dir, statedir.SocketFile)))
	must(t, err)
	s, err := api.Serve(addr, api.Keys{}, c)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	must(t, os.WriteFile(filepath.Join(dir, statedir.APIFile), []byte(addr.String()+"\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, statedir.TokenFile), []byte("\n"), 0o600))
}

// The dashboard asks the peer of a data directory, prints where the page is, and ends with its
// context. What the peer says comes to the page: its status, and its events in words; a motion goes
// back to it.
func TestDashboard(t *testing.T) {
	dir, moved := t.TempDir(), make(chan api.Motion, 1)
	me, err := slot.ParsePeerID("12D3KooWGRUKWRYAYXPn1hTvi8N5gRvHQ5x7oWgpGnvEMBLUFxAv")
	must(t, err)
	event := `{"time":"2026-01-02T03:04:05Z","event":"state.synced","peer":"x","slot":3,"bytes":4100000}`
	apiIn(t, dir, api.Content{
		Status: func() (any, bool) {
			return p2pdiloco.Status{
				Peer: me, Run: "books", Phase: p2pdiloco.PhasePaused, Reason: "no quorum is heard",
			}, true
		},
		Events: func(after uint64) api.Recent {
			return api.Recent{Next: 1, Events: []json.RawMessage{[]byte(event)}[min(after, 1):]}
		},
		Commands: api.Commands{Change: func(m api.Motion) error { moved <- m; return nil }},
	})
	ctx, cancel := context.WithCancel(t.Context())
	out, printed := io.Pipe()
	ended := make(chan error)
	go func() { ended <- showPage(ctx, printed, local.Operator{Dir: dir}, "127.0.0.1:0") }()
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	page, key, found := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "the run's page")), "#")
	if !found || !strings.HasPrefix(page, "http://127.0.0.1:") {
		t.Fatal(line)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	asking, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ask := func(method, path string) *http.Response {
		r, err := http.NewRequestWithContext(asking, method, page+path, nil)
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		res, err := client.Do(r)
		must(t, err)
		return res
	}
	stream, told := bufio.NewReader(ask(http.MethodGet, "stream").Body), ""
	for _, want := range []string{"still waiting: no quorum is heard", "fetched the state of slot 3, 4.1 MB"} {
		for !strings.Contains(told, want) {
			more, err := stream.ReadString('\n')
			if told += more; err != nil {
				t.Fatalf("%v after %s", err, told)
			}
		}
	}
	res := ask(http.MethodPost, "move?action=readmit&peer=q")
	if m := <-moved; res.StatusCode != http.StatusAccepted || m != (api.Motion{Action: "readmit", Peer: "q"}) {
		t.Errorf("%d, %+v", res.StatusCode, m)
	}
	_ = res.Body.Close()
	cancel()
	must(t, <-ended)
	must(t, printed.Close())
}
