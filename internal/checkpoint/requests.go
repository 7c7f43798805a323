package checkpoint

import (
	"sync"
	"time"
)

// requests remembers from which files other peers fetch.
type requests struct {
	mu struct {
		sync.Mutex
		last map[string]time.Time // by file name
	}
}

func newRequests() *requests {
	r := &requests{}
	r.mu.last = map[string]time.Time{}
	return r
}

func (r *requests) note(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.last[name] = time.Now()
}

// within lists the files that were asked for within a time, and forgets the others.
func (r *requests) within(d time.Duration) (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, at := range r.mu.last {
		if time.Since(at) > d {
			delete(r.mu.last, name)
			continue
		}
		names = append(names, name)
	}
	return names
}
