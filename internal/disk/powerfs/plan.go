package powerfs

import (
	"errors"
	"io/fs"
	"time"
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
	Delay time.Duration // slept first
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
func (f *FS) CutAt(n int, cut Cut) {
	f.Plan(func(op Op) Fault {
		if op.N == n {
			return Fault{Cut: cut}
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
	if fault.Delay > 0 {
		time.Sleep(fault.Delay)
	}
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
