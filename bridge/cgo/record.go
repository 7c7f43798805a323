package cgo

import (
	"os"
	"path/filepath"
)

// The file `call` of a library's folder has the name of the call that is open. It outlives the
// process.

// lastCall is the call of a folder in which the last process ended; empty: in none.
func lastCall(dir string) string {
	b, _ := os.ReadFile(filepath.Join(dir, "call"))
	return oneLine(string(b))
}

// LastCall is the call in which a process ended that had a library's folder below dir; empty: in
// none.
func LastCall(dir string) (call string) {
	folders, _ := os.ReadDir(dir)
	for _, f := range folders {
		if call == "" {
			call = lastCall(filepath.Join(dir, f.Name()))
		}
	}
	return call
}
