package peer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
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

// takeDir opens the first data directory of a run under base that no other process uses, and says
// whether it is the run's first on this machine.
func takeDir(base, run string) (dir datadir.Dir, first bool, err error) {
	parent := dirOfRun(base, run)
	for i := 1; i <= maxPeers; i++ {
		dir, err = datadir.Open(disk.OS, filepath.Join(parent, fmt.Sprintf("peer-%d", i)))
		if err == nil {
			return dir, i == 1, nil
		}
		if err = errors.Join(err, dir.Close()); !errors.Is(err, disk.ErrLocked) {
			return dir, false, fmt.Errorf("%w: name one with --data-dir", err)
		}
	}
	return dir, false, fmt.Errorf("data directory: all %d of run %s under %s are in use: name one with --data-dir",
		maxPeers, run, parent)
}

// dirOfRun is the directory of a run under base. Its name is that of the run: escaped, never
// hidden, and cut with a hash where it is long.
func dirOfRun(base, run string) string {
	name := url.PathEscape(run)
	if strings.HasPrefix(name, ".") {
		name = "%2E" + name[1:]
	}
	if len(name) > maxName {
		name = fmt.Sprintf("%s-%x", name[:maxName], sha256.Sum256([]byte(run)))
	}
	return filepath.Join(base, name)
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
	under := os.DirFS(base)
	for _, pattern := range []string{"*/peer-*", "*/attach-*", "*/host-" + url.PathEscape(host) + "/attach-*"} {
		found, err := fs.Glob(under, pattern)
		if err != nil {
			return nil, err
		}
		for _, dir := range found {
			all = append(all, filepath.Join(base, dir))
		}
	}
	if os.Getenv("XDG_STATE_HOME") == "" {
		found, _ := filepath.Glob(systemDirs) // its pattern is one
		all = append(all, found...)
	}
	noted, err := fs.Glob(under, notes+"/*")
	for _, note := range noted {
		note = filepath.Join(base, note)
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
	return all, err
}
