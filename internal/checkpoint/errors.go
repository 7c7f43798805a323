package checkpoint

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// ErrNotHeld is wrapped when a state, outcome or segment is not in the store.
var ErrNotHeld = errors.New("not held on disk")

func notHeld(root slot.Root) error {
	return fmt.Errorf("checkpoint: state %s: %w", root.Short(), ErrNotHeld)
}

// CorruptError means that the bytes of a file are not what its name promises. The file has been set
// aside.
type CorruptError struct {
	Path string // as it was when it was read
	Why  string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is torn or corrupt: %s (set aside as %s%s)", e.Path, e.Why, filepath.Base(e.Path),
		corruptSuffix)
}

const corruptSuffix = ".corrupt"
