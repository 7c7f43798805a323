// Wheels packs the Python package and the node's program into wheels, one for each platform: no
// compiler and no Go is needed to install them.
//
//	go run ./bridge/python/wheels --out dist
//
// It cross-builds the program without cgo, so that it is static: a Linux wheel serves glibc and
// musl alike. Built twice from one source, a wheel has the same bytes. Those for macOS were built,
// and never run.
package main
