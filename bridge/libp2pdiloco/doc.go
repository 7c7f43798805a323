// Command libp2pdiloco is no program but the shared library that C, Python and others load: the
// embedding ABI of bridge/include/p2pdiloco.h.
//
//	bridge/libp2pdiloco/build.sh [FOLDER]     # libp2pdiloco.so and p2pdiloco.h
//
// What happens in a call, from the host down:
//
//	guard.c         the header's functions; no call in a fork's child, no signal in Go
//	library_cgo.go  the same in Go: C values in, C values out, the work on a thread of Go's
//	embed           handles, codes and texts (bridge/internal/embed, tested without C)
//
// load.c runs when the library is loaded, and takes care that the host process notices nothing of
// it.
package main
