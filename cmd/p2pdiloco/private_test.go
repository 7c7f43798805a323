//go:build unix

package main

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// TestFilesThatOthersCanUse: a peer refuses a data directory that others can write and secrets that
// they can read, says what to do, and makes an events file for its user alone.
func TestFilesThatOthersCanUse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		directory fs.FileMode
		secret    string // a file with the mode 0644
		want      string
	}{
		{"for all", 0o777, "", "can be written by other users (mode 0777)"},
		{"for the group", 0o770, "", "run chmod go-w "},
		{
			"identity", 0o755, "identity",
			"identity: it holds a secret, and other users can use it (mode 0644): run chmod 600 ",
		},
		{
			"secret", 0o755, "admission.secret",
			"admission.secret: it holds a secret, and other users can use it (mode 0644)",
		},
	} {
		home := t.TempDir()
		dir, events := filepath.Join(home, "data"), filepath.Join(home, "events")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if c.secret != "" {
			path := filepath.Join(dir, c.secret)
			if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, 0o644); err != nil { // whatever the umask is
				t.Fatal(err)
			}
		}
		if err := os.Chmod(dir, c.directory); err != nil {
			t.Fatal(err)
		}
		p := clitest.Start(t, home, append([]string{
			"join", "--run", "x", "--trainer", "none", "--data-dir", dir, "--events", events,
		}, onLoopback...)...)
		if code := p.Ends(t); code != cli.ExitFailed || !strings.Contains(p.Err.String(), c.want) {
			t.Errorf("%s: exit %d, %s", c.name, code, &p.Err)
		}
		if info, err := os.Stat(events); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: events file %v, %v", c.name, info.Mode(), err)
		}
		if _, err := os.Stat(filepath.Join(dir, "api.token")); err == nil {
			t.Errorf("%s: a token was left there", c.name)
		}
	}
}

// ask gets a document as any user of the machine can, with the token in a file; none if that is
// empty.
func ask(t *testing.T, url, token string) (code int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		text, err := os.ReadFile(token)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(text)))
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// succeeds runs a command and returns what it prints.
func succeeds(t *testing.T, home string, args ...string) string {
	t.Helper()
	p := clitest.Start(t, home, args...)
	if code := p.Ends(t); code != cli.ExitOK {
		t.Errorf("%v: exit %d, %s", args, code, &p.Err)
	}
	return p.Out.String()
}

// TestOthersSeeNothingOfAPrivateRun: at a port, the status and the metrics of a private run are for
// those who can read the tokens; the user's own commands find them. Others join with a ticket, or
// with the secret's file.
func TestOthersSeeNothingOfAPrivateRun(t *testing.T) {
	t.Parallel()
	home, data, name := t.TempDir(), smallData(t), swarm.RunName("test")
	p, events := startPeer(t, home, data, "--run", name, "--access", "private", "--rounds", "100000",
		"--inner-steps", "2", "--outer", "sgd", "--api", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
	var started eventlog.Line
	clitest.AwaitEvent(t, events, "the first slot", func(e eventlog.Line) bool {
		if e.Event == "peer.started" {
			started = e
		}
		return e.Event == "slot.applied"
	})
	dir := filepath.Join(home, "p2pdiloco", name, "peer-1")
	api, metrics := filepath.Join(dir, "api.token"), filepath.Join(dir, "metrics.token")
	for _, c := range []struct {
		url, token string
		want       int
	}{
		{started.API + "/status", "", 401},
		{started.API + "/status", metrics, 401},
		{started.API + "/status", api, 200},
		{started.API + "/metrics", "", 401},
		{started.API + "/metrics", metrics, 200},
		{started.Metrics + "/metrics", "", 401},
		{started.Metrics + "/metrics", metrics, 200},
	} {
		if got := ask(t, c.url, c.token); got != c.want {
			t.Errorf("%s with token %q: %d, want %d", c.url, c.token, got, c.want)
		}
	}
	for _, path := range []string{api, metrics, filepath.Join(dir, "api")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	for _, args := range [][]string{
		{"status"}, {"status", "--api", started.API}, {"status", "--data-dir", dir}, {"invite"},
	} {
		if text := succeeds(t, home, args...); text == "" {
			t.Errorf("%v prints nothing", args)
		}
	}
	foreign := clitest.Start(t, t.TempDir(), "status", "--api", started.API)
	if foreign.Ends(t) != cli.ExitFailed || !strings.Contains(foreign.Err.String(), "--data-dir") {
		t.Errorf("without the token: %s", &foreign.Err)
	}
	for _, by := range [][]string{
		{invited(t, home)}, {"--run", name, "--admission-secret", filepath.Join(dir, "admission.secret")},
	} {
		guest, events := startPeer(t, t.TempDir(), data, by...)
		clitest.AwaitEvent(t, events, "a guest's first slot", clitest.Named("slot.applied"))
		leave(t, guest)
	}
	leave(t, p)
}

// TestTheSocketOfAPeer: by default a peer's own user reaches it by a socket, also where its path is
// too long for one in the data directory, and a second peer that is refused takes nothing from it.
func TestTheSocketOfAPeer(t *testing.T) {
	t.Parallel()
	home, data := t.TempDir(), smallData(t)
	for _, name := range []string{"data", strings.Repeat("long", 40)} {
		dir := filepath.Join(home, name)
		p, events := startPeer(t, home, data, "--run", swarm.RunName("test"), "--data-dir", dir)
		started := clitest.AwaitEvent(t, events, "the start", func(e eventlog.Line) bool {
			return e.Event == "peer.started" && e.PID == p.Process.Pid
		})
		path, found := strings.CutPrefix(started.API, "unix:")
		info, err := os.Stat(path)
		if !found || err != nil || info.Mode().Perm() != 0o600 || (filepath.Dir(path) == dir) != (name == "data") {
			t.Fatalf("the API is at %s: %v, %v", started.API, info, err)
		}
		if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the socket's directory: %v, %v", info.Mode(), err)
		}
		second := clitest.Start(t, home, append([]string{"join", "--run", "x", "--data-dir", dir}, onLoopback...)...)
		if second.Ends(t) != cli.ExitFailed || !strings.Contains(second.Err.String(), "in use by another process") {
			t.Errorf("a second peer in one directory: %s", &second.Err)
		}
		succeeds(t, home, "status", "--data-dir", dir)
		leave(t, p)
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left behind", path)
		}
	}
}
