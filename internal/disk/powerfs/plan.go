// Package powerfs is a file system in memory for tests of what must survive a power cut, a kill, a
// full disk or a failing one. It keeps what the programs see (the kernel's cache) apart from what
// is on the disk. It is as unkind about the difference as POSIX allows, although no real file
// system is unkind in all of these ways:
//
//   - Bytes that were written and not synced: each sector of SectorBytes is there, or as it was
//     (zeros where the file was shorter), or torn at any byte. Later sectors may survive earlier
//     ones, and the file's new size may survive without its bytes.
//   - Names that were made, replaced, linked or removed since the last SyncDir: each change
//     survives or not, whatever became of the others. A file's Sync makes no name durable.
//   - After Sync, and SyncDir, all of that is on the disk.
//   - A Sync that fails drops the bytes that it should have written, as Linux does. The cache still
//     shows them, and the next Sync succeeds without writing them. Nobody knows whether they are on
//     the disk. A SyncDir that fails changes nothing, because a journal that cannot be written
//     stops the file system.
//
// Every call that changes something or makes it durable is an Op with a number. Plan says, by
// number, kind or name, which of them fail, or are the last before the power goes. Then
// Reboot returns what a disk may hold; its seed picks one of the many ways. Restart returns the
// same kernel to the next process, after a kill.
//
// One process uses an FS at a time. All methods may be called from any goroutine.
//
// The crashable file system of pebble (vfs.MemFS) does not replace it. Blocks of 4 KiB survive a
// crash there whole or not at all, a failed sync loses nothing, and there is no plan by operation.
// An adapter that adds these would be as long as this package, and pebble would bring its
// dependencies into the module.
package powerfs

import (
	"errors"
	"io/fs"
)

// ErrPowerCut is what every call returns once the power is gone, or the process is killed.
var ErrPowerCut = errors.New("simulated power cut")

// Kind says what an Op does.
type Kind string

// The kinds of Ops.
const (
	Mkdir    Kind = "mkdir"
	Create   Kind = "create" // of a file's name: CreateTemp, OpenFile, Lock
	Write    Kind = "write"
	Truncate Kind = "truncate"
	Sync     Kind = "sync"
	Rename   Kind = "rename"
	Link     Kind = "link"
	Remove   Kind = "remove"
	SyncDir  Kind = "syncdir"
)

// Op is one call that changes something or makes it durable.
type Op struct {
	N    int // counted from 0
	Kind Kind
	Path string // of the file or directory; of a rename, the new name
}

// Fault says what happens to an Op.
type Fault struct {
	// Err is the error that the call fails with: a write after its first half, a Sync after it has
	// dropped its bytes.
	Err error
	Cut Cut
}

// Cut says when the power goes.
type Cut int

// Power cuts.
const (
	None   Cut = iota
	Before     // the Op is not done
	After      // the Op is done, but the caller does not learn of it
)

// Plan sets what becomes of each Op from now on. It may be called from several goroutines at once.
func (f *FS) Plan(plan func(Op) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.plan = plan
}

// CutAt plans a power cut at the Op with this number.
func (f *FS) CutAt(n int, cut Cut) { f.failAt(n, Fault{Cut: cut}) }

func (f *FS) failAt(n int, fault Fault) {
	f.Plan(func(op Op) Fault {
		if op.N == n {
			return fault
		}
		return Fault{}
	})
}

// Ops is the number of Ops so far.
func (f *FS) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.ops
}

// Cut ends the power now.
func (f *FS) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.down = true
}

// Down tells whether the power is gone.
func (f *FS) Down() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.down
}

// do carries out an Op according to the plan. act changes the file system, with f.mu held. half, if
// not nil, is what a failing call still does.
func (f *FS) do(kind Kind, path string, act func() error, half func()) error {
	f.mu.Lock()
	op := Op{f.mu.ops, kind, path}
	f.mu.ops++
	plan := f.mu.plan
	f.mu.Unlock()
	fault := plan(op)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.down || fault.Cut == Before {
		f.mu.down = true
		return ErrPowerCut
	}
	if fault.Err != nil {
		if half != nil {
			half()
		}
		return &fs.PathError{Op: string(kind), Path: path, Err: fault.Err}
	}
	err := act()
	if fault.Cut == After {
		f.mu.down = true
		return ErrPowerCut
	}
	return err
}
