// Command libp2pdiloco is no program but the shared library that C, Python and others load: the embedding ABI of
// bridge/include/p2pdiloco.h.
//
//	bridge/libp2pdiloco/build.sh [FOLDER]     # libp2pdiloco.so and p2pdiloco.h
//
// What happens in a call, from the host down:
//
//	guard.c         the header's functions: a fork's child goes no further, and signals stay out while a thread is in Go
//	library_cgo.go  the same in Go: C values in, C values out, the work on a thread of Go's
//	embed           nodes behind handles, codes and texts (bridge/internal/embed, which is tested without C)
//
// load.c is what loading does to the host process, which is: nothing that it would notice.
package main
