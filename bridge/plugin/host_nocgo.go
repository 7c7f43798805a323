//go:build !(cgo && unix)

package plugin

import (
	"fmt"
	"runtime"
	"slices"
)

// checkHost returns an error: without cgo the program cannot be a host.
func checkHost() error {
	if !slices.Contains([]string{"linux", "darwin", "freebsd", "netbsd", "openbsd"}, runtime.GOOS) {
		return fmt.Errorf("%w: they are not supported on %s: use Linux, or train in a program of your own "+
			"(join --trainer attach)", ErrNoHost, runtime.GOOS)
	}
	return fmt.Errorf("%w: it was built without cgo. Either build it from source with CGO_ENABLED=1 and a C "+
		"compiler, or have a program of yours load the library and attach to the node: join --trainer attach, with "+
		"bridge/include/p2pdiloco_attach.h", ErrNoHost)
}
