//go:build cgo && unix

package cgo

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A record is a page of a file that is mapped, and so outlives the process: the name of the call
// that is open, and how far its steps are.
type record []byte

const (
	recordFile  = "call"
	recordBytes = 4096
	nameBytes   = 128
	stepsAt     = 256 // a word: the steps of the last run
	wantedAt    = 264 // a word: the steps that were asked for
)

// openRecord maps the record of a folder, and says in which call the last process ended; empty: in
// none.
func openRecord(dir string) (r record, last string, err error) {
	f, err := os.OpenFile(filepath.Join(dir, recordFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	if err = f.Truncate(recordBytes); err == nil {
		r, err = unix.Mmap(int(f.Fd()), 0, recordBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, "", err
	}
	if last = r.doing(); last != "" {
		last += r.place()
	}
	clear(r)
	return r, last, nil
}

// begins writes a call's name. The last byte of the name stays 0.
func (r record) begins(doing string) {
	clear(r[:nameBytes])
	copy(r[:nameBytes-1], doing)
}

func (r record) ends() { r[0] = 0 }

func (r record) doing() string {
	name, _, _ := bytes.Cut(r[:nameBytes], []byte{0})
	return oneLine(string(name))
}

func (r record) word(at int) *uint64 { return (*uint64)(unsafe.Pointer(&r[at])) }
func (r record) steps() uint64       { return atomic.LoadUint64(r.word(stepsAt)) }

// place is how far a run came.
func (r record) place() string {
	wanted := atomic.LoadUint64(r.word(wantedAt))
	if wanted == 0 {
		return ""
	}
	return fmt.Sprintf(" after %d of %d steps", r.steps(), wanted)
}

func (r record) close() error { return unix.Munmap(r) }

// LastCall is the call in which the last process ended that had a library's folder, below dir;
// empty: in none.
func LastCall(dir string) string {
	files, _ := filepath.Glob(filepath.Join(dir, "*", recordFile))
	for _, f := range files {
		if r, last, err := openRecord(filepath.Dir(f)); err == nil {
			_ = r.close()
			if last != "" {
				return last
			}
		}
	}
	return ""
}
