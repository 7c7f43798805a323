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
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// TestFilesThatOthersCanUse: a peer refuses a data directory that others can write and secrets that
// they can read, says what to do, and makes an events file for its user alone.
func TestFilesThatOthersCanUse(t *testing.T) {
	for _, c := range []struct {
		directory fs.FileMode
		secret    string // a file with the mode 0644
		want      string
	}{
		{0o777, "", "can be written by other users (mode 0777)"},
		{0o770, "", "run chmod go-w "},
		{
			0o755, "identity",
			"identity: it holds a secret, and other users can use it (mode 0644): run chmod 600 ",
		},
		{
			0o755, "admission.secret",
			"admission.secret: it holds a secret, and other users can use it (mode 0644)",
		},
	} {
		dir, events := t.TempDir(), filepath.Join(t.TempDir(), "events")
		if path := filepath.Join(dir, c.secret); c.secret != "" {
			write(t, path, "x")
			chmod(t, path, 0o644) // whatever the umask is
		}
		chmod(t, dir, c.directory)
		clitest.Answers(t, newRoot, cli.ExitFailed, []clitest.Case{
			{"join --run x --trainer none --data-dir " + dir + " --events " + events, c.want},
		})
		isOfTheUserAlone(t, events)
		if exists(filepath.Join(dir, "api.token")) {
			t.Errorf("%s: a token was left there", c.want)
		}
	}
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	must(t, os.Chmod(path, mode))
}

func isOfTheUserAlone(t *testing.T, path string) {
	t.Helper()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%s: %v, %v", path, info.Mode(), err)
	}
}

// ask gets a document as any user of the machine can, with the token in a file; none if that is
// empty.
func ask(t *testing.T, url, token string) (code int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+url, nil)
	must(t, err)
	if token != "" {
		text, err := os.ReadFile(token)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(text)))
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	must(t, err)
	_ = res.Body.Close()
	return res.StatusCode
}

// TestOthersSeeNothingOfAPrivateRun: at a port, the status and the metrics of a private run are for
// those who can read the tokens; the user's own commands find them. Others join with a ticket, or
// with the secret's file.
func TestOthersSeeNothingOfAPrivateRun(t *testing.T) {
	t.Parallel()
	home, name := t.TempDir(), lab.RunName("test")
	p, events := startPeer(t, home, "--run", name, "--access", "private", "--rounds", "100000", "--inner-steps", "2",
		"--outer", "sgd", "--api", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
	started := clitest.Await(t, events, "peer.started")
	clitest.Await(t, events, "slot.applied")
	dir := filepath.Join(home, "p2pdiloco", name, "peer-1")
	api, metrics := filepath.Join(dir, "api.token"), filepath.Join(dir, "metrics.token")
	for _, c := range []struct {
		url, token string
		want       int
	}{
		{started.API + "/status", "", 401},
		{started.API + "/status", metrics, 401},
		{started.API + "/status", api, 200},
		{started.API + "/metrics", metrics, 200},
		{started.Metrics + "/metrics", "", 401},
		{started.Metrics + "/metrics", metrics, 200},
	} {
		if got := ask(t, c.url, c.token); got != c.want {
			t.Errorf("%s with token %q: %d, want %d", c.url, c.token, got, c.want)
		}
	}
	for _, path := range []string{api, metrics, filepath.Join(dir, "api")} {
		isOfTheUserAlone(t, path)
	}
	answers(t, home, cli.ExitOK, name, "status", "--api", started.API)
	answers(t, t.TempDir(), cli.ExitFailed, "--data-dir", "status", "--api", started.API)
	invited, _, _ := strings.Cut(answers(t, home, cli.ExitOK, ticket.Prefix, "invite", "--uses", "2"), "\n")
	for _, by := range [][]string{
		{invited}, {"-"}, {"--run", name, "--admission-secret", filepath.Join(dir, "admission.secret")},
	} {
		guest, events := newPeer(t, t.TempDir(), by...)
		guest.Stdin = strings.NewReader(invited)
		guest.Begin(t)
		clitest.Await(t, events, "slot.applied")
		leave(t, guest)
	}
	leave(t, p)
}

// TestTheSocketOfAPeer: by default a peer's own user reaches it by a socket, also where its path is
// too long for one in the data directory, or it is named from the folder in which the peer is
// started: a command that was given in another one said that the peer has crashed. A second peer
// that is refused takes nothing from it.
func TestTheSocketOfAPeer(t *testing.T) {
	t.Parallel()
	home, err := os.MkdirTemp("", "api") //nolint:usetesting // a socket's path is short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	for name, more := range map[string][]string{
		"data": nil, strings.Repeat("long", 40): nil, "relative": {"--api", "unix:api.sock"},
	} {
		dir := filepath.Join(home, name)
		p, events := startBare(t, home, append(more, "--run", lab.RunName("test"), "--data-dir", dir, "--trainer",
			"none")...)
		started := clitest.AwaitEvent(t, events, "the start", func(e eventlog.Line) bool {
			return e.Event == "peer.started" && e.PID == p.Process.Pid
		})
		path, found := strings.CutPrefix(started.API, "unix:")
		if !found || (filepath.Dir(path) == dir) != (name == "data") {
			t.Fatalf("the API is at %s", started.API)
		}
		isOfTheUserAlone(t, path)
		isOfTheUserAlone(t, filepath.Dir(path))
		answers(t, home, cli.ExitFailed, "in use by another process", append([]string{
			"join", "--run", "x", "--data-dir", dir,
		}, onLoopback...)...)
		answers(t, t.TempDir(), cli.ExitOK, "", "status", "--data-dir", dir)
		leave(t, p)
		if exists(path) {
			t.Errorf("%s is left behind", path)
		}
	}
}
