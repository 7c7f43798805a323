//go:build unix

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
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
		{"identity", 0o755, "identity", "identity: it holds a secret, and other users can use it (mode 0644): run chmod 600 "},
		{"secret", 0o755, "admission.secret", "admission.secret: it holds a secret, and other users can use it (mode 0644)"},
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
