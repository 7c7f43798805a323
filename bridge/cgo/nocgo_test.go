//go:build !cgo

package cgo

import (
	"errors"
	"strings"
	"testing"
)

// TestProgramWithoutCgo: it says which program does it, and what does without.
func TestProgramWithoutCgo(t *testing.T) {
	_, err := Open(t.Context(), Config{Path: "./mine.so"})
	for _, want := range []string{"./mine.so: ", "without cgo", "CGO_ENABLED=1 go install ", "join --trainer attach"} {
		if !errors.Is(err, ErrNoCgo) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, without %q", err, want)
		}
	}
}
