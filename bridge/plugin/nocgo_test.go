//go:build !cgo

package plugin

import (
	"errors"
	"strings"
	"testing"
)

func TestProgramWithoutCgo(t *testing.T) {
	_, err := Open(t.Context(), Config{Path: "./mine.so"})
	if !errors.Is(err, ErrNoHost) || !strings.HasPrefix(err.Error(),
		"./mine.so: this program cannot load trainer libraries: ") {
		t.Errorf("got %v", err)
	}
}
