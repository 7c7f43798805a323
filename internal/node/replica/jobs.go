package replica

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

// jobs runs at most one background job of each kind. A new job replaces the unfinished one of its
// kind, and starts when that one has ended. Jobs of different kinds run beside each other.
type jobs struct {
	wg sync.WaitGroup
	mu struct {
		sync.Mutex
		running map[string]job
	}
}

type job struct {
	purpose string // "" for a job that never continues another
	cancel  context.CancelFunc
	done    chan struct{}
}

// runsFor says whether the job has this purpose and has not ended.
func (j job) runsFor(purpose string) bool {
	if purpose == "" || j.purpose != purpose {
		return false
	}
	select {
	case <-j.done:
		return false
	default:
		return true
	}
}

// done is closed when the job of a kind that runs for a purpose ends. It is nil if none does.
func (j *jobs) done(kind, purpose string) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if job := j.mu.running[kind]; job.runsFor(purpose) {
		return job.done
	}
	return nil
}

// start starts f as the job of its kind, unless one runs for the same purpose: that one goes on. It
// returns at once.
func (j *jobs) start(ctx context.Context, kind, purpose string, f func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	next := job{purpose, cancel, make(chan struct{})}
	j.mu.Lock()
	if j.mu.running == nil {
		j.mu.running = make(map[string]job)
	}
	previous := j.mu.running[kind]
	if previous.runsFor(purpose) {
		j.mu.Unlock()
		cancel()
		return
	}
	j.mu.running[kind] = next
	j.mu.Unlock()
	if previous.cancel != nil {
		previous.cancel()
	}
	j.wg.Go(func() {
		defer close(next.done)
		defer cancel()
		if previous.done != nil {
			<-previous.done
		}
		if ctx.Err() == nil {
			f(ctx)
		}
	})
}

// wait returns when all jobs have ended. Their contexts must have ended before.
func (j *jobs) wait() { j.wg.Wait() }

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

// clear notes that a work has used its files.
func (f *faults) clear() {
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
