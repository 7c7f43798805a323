package p2pdiloco

import (
	"context"
	"sync"
)

// jobs runs at most one job of each kind: a new one replaces the unfinished one, and starts when that has ended.
type jobs struct {
	wg sync.WaitGroup
	mu struct {
		sync.Mutex
		running map[string]job
	}
}

type job struct {
	what   string // it is for; "" for jobs of which each is another
	cancel context.CancelFunc
	done   chan struct{}
}

// runs says whether the job is for the same and has not ended.
func (j job) runs(what string) bool {
	if what == "" || j.what != what {
		return false
	}
	select {
	case <-j.done:
		return false
	default:
		return true
	}
}

// done is closed when the job of a kind that runs for something ends; nil if none does.
func (j *jobs) done(kind, what string) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if job := j.mu.running[kind]; job.runs(what) {
		return job.done
	}
	return nil
}

// replace starts f as the job of its kind and returns at once.
func (j *jobs) replace(ctx context.Context, kind string, f func(context.Context)) {
	j.start(ctx, kind, "", f)
}

// start starts f as the job of its kind, unless that runs for the same already: what is asked for again goes on. It returns at once.
func (j *jobs) start(ctx context.Context, kind, what string, f func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	next := job{what, cancel, make(chan struct{})}
	j.mu.Lock()
	if j.mu.running == nil {
		j.mu.running = make(map[string]job)
	}
	previous := j.mu.running[kind]
	if previous.runs(what) {
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

// wait returns when all jobs have ended; their contexts must have.
func (j *jobs) wait() { j.wg.Wait() }
