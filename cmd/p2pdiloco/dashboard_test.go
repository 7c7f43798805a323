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
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// apiIn serves an API in a data directory, as a peer does.
func apiIn(t *testing.T, dir string, c api.Content) {
	t.Helper()
	addr, err := api.ParseAddress(api.Socket(filepath.Join(dir, peer.SocketFile)))
	must(t, err)
	s, err := api.Serve(addr, api.Keys{}, c)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	must(t, os.WriteFile(filepath.Join(dir, peer.APIFile), []byte(addr.String()+"\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, peer.TokenFile), []byte("\n"), 0o600))
}

// asksPage returns what asks the page whose address stands in a line, with its key.
func asksPage(t *testing.T, line string) (ask func(method, path string) *http.Response) {
	t.Helper()
	page, key, found := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "the run's page")), "#")
	if !found || !strings.HasPrefix(page, "http://127.0.0.1:") {
		t.Fatal(line)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	asking, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	return func(method, path string) *http.Response {
		r, err := http.NewRequestWithContext(asking, method, page+path, nil)
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		res, err := client.Do(r)
		must(t, err)
		return res
	}
}

// shows waits until the page has texts, in their order.
func shows(t *testing.T, ask func(method, path string) *http.Response, texts ...string) {
	t.Helper()
	body := ask(http.MethodGet, "stream").Body
	defer body.Close()
	stream, told := bufio.NewReader(body), ""
	for _, want := range texts {
		for !strings.Contains(told, want) {
			more, err := stream.ReadString('\n')
			if told += more; err != nil {
				t.Fatalf("%v after %s", err, told)
			}
		}
	}
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
	go func() { ended <- showPage(ctx, printed, operator{Dir: dir}, "127.0.0.1:0") }()
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	ask := asksPage(t, line)
	shows(t, ask, "still waiting: no quorum is heard", "fetched the state of slot 3, 4.1 MB")
	res := ask(http.MethodPost, "move?action=readmit&peer=q")
	if m := <-moved; res.StatusCode != http.StatusAccepted || m != (api.Motion{Action: "readmit", Peer: "q"}) {
		t.Errorf("%d, %+v", res.StatusCode, m)
	}
	_ = res.Body.Close()
	cancel()
	must(t, <-ended)
	must(t, printed.Close())
}

// A peer that joins serves the same page itself, says where, and takes it away as it ends.
func TestJoinWithADashboard(t *testing.T) {
	t.Parallel()
	home, name := t.TempDir(), lab.RunName("test")
	p, _ := newPeer(t, home, "--run", name, "--rounds", "100000", "--inner-steps", "2", "--quiet",
		"--dashboard=127.0.0.1:0")
	said := printing(t, p)
	p.Begin(t)
	clitest.Until(t, "the page's address", func() bool { return strings.Contains(said(), "\n") })
	line, _, _ := strings.Cut(said(), "\n")
	ask := asksPage(t, line)
	shows(t, ask, `"name":"`+name, "founded the run")
	res := ask(http.MethodPost, "move?action=readmit&peer="+name)
	if res.StatusCode != http.StatusConflict { // the peer says that this is no peer's ID
		t.Error(res.Status)
	}
	_ = res.Body.Close()
	leave(t, p)
	page, _, _ := strings.Cut(strings.Fields(line)[3], "#")
	if _, err := http.Get(page); err == nil {
		t.Error("the page outlives the peer")
	}
}
