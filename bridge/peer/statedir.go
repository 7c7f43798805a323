package peer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

// APIFile is the name of the file in a data directory with the address of the peer's API.
const APIFile = "api"

// SocketFile is the name of the socket in a data directory where the peer's API listens by default.
const SocketFile = "api.sock"

// TokenFile is the name of the file in a data directory with the secret that a request to the
// peer's API must carry, where that is a HOST:PORT.
const TokenFile = "api.token"

// MetricsTokenFile is the name of the file in a data directory with the secret that lets a program
// read the metrics, and nothing else.
const MetricsTokenFile = "metrics.token"

const (
	maxPeers = 1024 // of one run on one machine
	maxName  = 100  // bytes of a run's name in a path
)

// BaseDir is the directory that holds a directory for each run: $XDG_STATE_HOME/p2pdiloco, by
// default ~/.local/state/p2pdiloco.
func BaseDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "p2pdiloco"), nil
	}
	if runtime.GOOS == "darwin" {
		dir, err := os.UserConfigDir()
		return filepath.Join(dir, "p2pdiloco"), err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no place for the peer's data: %w: name one with --data-dir", err)
	}
	return filepath.Join(home, ".local", "state", "p2pdiloco"), nil
}

// claim is a data directory that this process owns until Release, or until it ends.
type claim struct {
	Dir   string
	First bool // whether it is the run's first on this machine
	lock  io.Closer
}

// takeDir claims the first free directory of a run under base, makes it, and has use open it. If
// use says disk.ErrLocked, a process that was given that directory by name has it, and Take goes on
// to the next one.
func takeDir(base, run string, use func(dir string) error) (*claim, error) {
	parent := dirOfRun(base, run)
	if err := disk.MakeDir(disk.OS, parent); err != nil {
		return nil, fmt.Errorf("data directory: %w: name one that can be written with --data-dir", err)
	}
	for i := 1; i <= maxPeers; i++ {
		c := &claim{Dir: filepath.Join(parent, fmt.Sprintf("peer-%d", i)), First: i == 1}
		switch err := c.take(use); {
		case err == nil:
			return c, nil
		case !errors.Is(err, disk.ErrLocked):
			return nil, err
		}
	}
	return nil, fmt.Errorf("data directory: all %d of run %s under %s are in use: name one with --data-dir", maxPeers,
		run, parent)
}

// take locks the directory beside it, makes it and has use open it.
func (c *claim) take(use func(dir string) error) (err error) {
	if c.lock, err = disk.OS.Lock(c.Dir + ".lock"); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err = disk.MakeDir(disk.OS, c.Dir); err != nil {
		err = fmt.Errorf("data directory: %w", err)
	} else {
		err = use(c.Dir)
	}
	if err != nil {
		return errors.Join(err, c.lock.Close())
	}
	return nil
}

// Release lets other processes take the directory. Its files stay.
func (c *claim) Release() error { return c.lock.Close() }

// dirOfRun is the directory of a run under base.
func dirOfRun(base, run string) string { return filepath.Join(base, runDir(run)) }

// runDir is a run's name as the name of a directory: escaped, never hidden, and cut with a hash
// where it is long.
func runDir(run string) string {
	name := url.PathEscape(run)
	if strings.HasPrefix(name, ".") {
		name = "%2E" + name[1:]
	}
	if len(name) > maxName {
		name = fmt.Sprintf("%s-%x", name[:maxName], sha256.Sum256([]byte(run)))
	}
	return name
}

// notes is the folder under base with the paths of directories that users named.
const notes = ".elsewhere"

// systemDirs are those of the systemd unit in examples.
const systemDirs = "/var/lib/p2pdiloco/*/peer"

// isChosen says whether a directory is one that was chosen here, or by the Python package.
func isChosen(base, dir string) bool {
	rel, err := filepath.Rel(base, dir)
	return err == nil && filepath.IsLocal(rel)
}

// noteDir remembers, for Dirs, a directory that a user named.
func noteDir(base, dir string) error {
	if isChosen(base, dir) {
		return nil
	}
	folder := filepath.Join(base, notes)
	if err := disk.MakeDir(disk.OS, folder); err != nil {
		return err
	}
	return disk.Replace(disk.OS, filepath.Join(folder, noteOf(dir)), []byte(dir+"\n"))
}

// noteOf is the name of the note of a directory on this host: several may share a home folder.
func noteOf(dir string) string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%x", sha256.Sum256([]byte(host+"\n"+dir)))
}

// Dirs lists the data directories of this host's peers, running or not, by their absolute paths. It
// forgets those that are gone.
func Dirs(base string) (all []string, err error) {
	host, _ := os.Hostname()
	under := func(parts ...string) string {
		return filepath.Join(append([]string{escapeGlob(base), "*"}, parts...)...)
	}
	patterns := []string{
		under("peer-*"), under("attach-*"), under("host-"+escapeGlob(url.PathEscape(host)), "attach-*"),
	}
	if os.Getenv("XDG_STATE_HOME") == "" {
		patterns = append(patterns, systemDirs)
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	noted, err := filepath.Glob(filepath.Join(escapeGlob(base), notes, "*"))
	for _, note := range noted {
		text, err := os.ReadFile(note)
		dir := strings.TrimSuffix(string(text), "\n")
		if err != nil || noteOf(dir) != filepath.Base(note) {
			continue // another host's, or gone just now
		}
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			_ = os.Remove(note)
			continue
		}
		all = append(all, dir)
	}
	// beside each directory there is its lock
	return slices.DeleteFunc(all, func(dir string) bool { return strings.HasSuffix(dir, ".lock") }), err
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
