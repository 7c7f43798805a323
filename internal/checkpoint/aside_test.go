package checkpoint

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

// Who only reads a directory, as an export beside a running peer does, renames no file in it, and
// does not say so. It sent people to a file that was not there.
func TestOnlyAFileThatWasSetAsideIsSaidToBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	noError(t, os.WriteFile(path, nil, 0o600))
	for _, readOnly := range []bool{true, false} {
		f := &folder{dir: filepath.Dir(path), fs: disk.OS, log: slog.New(slog.DiscardHandler), readOnly: readOnly}
		err := &CorruptError{Path: path, Why: "rotten"}
		f.setAside("state", err)
		_, moved := os.Stat(path + corruptSuffix)
		said := strings.Contains(err.Error(), "set aside as state.corrupt")
		if said != (moved == nil) || said == readOnly {
			t.Errorf("read only is %v: %v; the file: %v", readOnly, err, moved)
		}
	}
}
