//go:build cgo && unix

package plugin

// #cgo CFLAGS: -std=c11 -Wall -Wextra -I${SRCDIR}/../include
// #cgo linux CFLAGS: -D_GNU_SOURCE
// #cgo linux LDFLAGS: -ldl -lpthread
import "C" // only host.c needs it, which runs before anything in Go

// checkHost returns an error if the program cannot be a host.
func checkHost() error { return nil }
