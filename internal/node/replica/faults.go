package replica

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

// A peer that cannot use its files holds no outcome, and all others wait for it in every slot. A
// disk that is full, read-only or failing ends it at once. Any other fault may pass: it ends the
// peer when so many works in a row have met one, over such a time.
const (
	faultTimes = 3
	faultTime  = 2 * time.Second
)

// faults are the faults of files that works have met in a row.
type faults struct {
	mu    sync.Mutex
	times int
	since time.Time
	err   error // the newest
}

// over notes that a work has used its files.
func (f *faults) over() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.times, f.err = 0, nil
}

// last notes what a work has met. It says whether this peer does no more work.
func (f *faults) last(err error) bool {
	if disk.Fault(err) {
		return true
	}
	if !errors.As(err, new(*fs.PathError)) && !errors.As(err, new(*os.LinkError)) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.times == 0 {
		f.since = time.Now()
	}
	f.times++
	f.err = err
	return f.times >= faultTimes && time.Since(f.since) >= faultTime
}

// Fault is what keeps this peer from using its files; nil if nothing does.
func (r *Replica) Fault() error {
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	return r.faults.err
}
