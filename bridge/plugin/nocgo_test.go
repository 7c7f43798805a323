//go:build !cgo

package plugin

import (
	"errors"
	"testing"
)

func TestProgramWithoutCgo(t *testing.T) {
	_, err := Open(t.Context(), Config{Path: "./mine.so"})
	const want = "./mine.so: this program cannot load trainer libraries: it was built without cgo. Either build it " +
		"from source with CGO_ENABLED=1 and a C compiler, or have a program of yours load the library and attach to " +
		"the node: join --trainer attach, with bridge/include/p2pdiloco_attach.h"
	if !errors.Is(err, ErrNoHost) || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
