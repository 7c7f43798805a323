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
	cancel context.CancelFunc
	done   chan struct{}
}

// replace starts f as the job of its kind and returns at once.
func (j *jobs) replace(ctx context.Context, kind string, f func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	next := job{cancel, make(chan struct{})}
	j.mu.Lock()
	if j.mu.running == nil {
		j.mu.running = make(map[string]job)
	}
	previous := j.mu.running[kind]
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
