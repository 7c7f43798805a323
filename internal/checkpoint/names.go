package checkpoint

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Kinds of files: the first part of their names.
const (
	statePrefix   = "state"
	outcomePrefix = "outcome"
	partialPrefix = "partial"
)

func fileName(kind string, height uint64, root slot.Root) string {
	return fmt.Sprintf("%s-%020d-%s", kind, height, root)
}

// parseFileName parses the names that fileName makes, and no others.
func parseFileName(name string) (kind string, height uint64, root slot.Root, ok bool) {
	part := strings.Split(name, "-")
	if len(part) != 3 {
		return "", 0, slot.Root{}, false
	}
	height, err := strconv.ParseUint(part[1], 10, 64)
	if err != nil {
		return "", 0, slot.Root{}, false
	}
	if b, err := hex.DecodeString(part[2]); err == nil && len(b) == len(root) {
		root = slot.Root(b)
	}
	return part[0], height, root, fileName(part[0], height, root) == name
}
