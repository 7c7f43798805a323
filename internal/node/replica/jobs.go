package replica

import (
	"context"
	"sync"
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

// replace starts f as the job of its kind and returns at once.
func (j *jobs) replace(ctx context.Context, kind string, f func(context.Context)) {
	j.start(ctx, kind, "", f)
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
