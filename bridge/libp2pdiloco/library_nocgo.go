//go:build !cgo || windows

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "libp2pdiloco is a C library: build it with cgo (CGO_ENABLED=1 and a C compiler) and "+
		"-buildmode=c-shared, not on Windows")
	os.Exit(1)
}
