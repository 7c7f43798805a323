package checkpoint

import (
	"errors"
	"io/fs"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

// Reached returns the height up to which the files in dir show that this peer has had records. A
// state is that after a record which the peer had on disk before. An outcome of the height above
// the newest record may lie there, because it is on disk before the peer says that it holds it. The
// files may be those of a chain that was given up.
func Reached(fsys disk.FS, dir string) (height uint64, err error) {
	names, err := (&folder{dir: dir, fs: fsys}).names()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, name := range names {
		switch kind, at, _, ok := parseFileName(name); {
		case !ok:
		case kind == statePrefix:
			height = max(height, at)
		case kind == outcomePrefix && at > 0:
			height = max(height, at-1)
		}
	}
	return height, err
}
