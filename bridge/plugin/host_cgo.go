//go:build cgo && unix

package plugin

// #cgo CFLAGS: -std=c11 -Wall -Wextra -I${SRCDIR}/../include
// #cgo linux CFLAGS: -D_GNU_SOURCE
// #cgo linux LDFLAGS: -ldl -lpthread
import "C" // for host.c alone, which runs before anything in Go does

// checkHost says whether the program can be a host.
func checkHost() error { return nil }
