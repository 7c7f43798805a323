package discovery

import (
	"slices"
	"sync"
)

// Places are the names under which the peers of a run announce themselves and look for each other,
// where these change: those of a private run come from its secrets.
type Places struct {
	mu struct {
		sync.Mutex
		names   []string
		changed chan struct{} // closed when they do
	}
}

// NewPlaces are places that can be Set again.
func NewPlaces(names ...string) *Places {
	p := &Places{}
	p.mu.names, p.mu.changed = names, make(chan struct{})
	return p
}

// Set replaces them. What is announced under names that are gone ends with its time in the DHT.
func (p *Places) Set(names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Equal(names, p.mu.names) {
		return
	}
	close(p.mu.changed)
	p.mu.names, p.mu.changed = slices.Clone(names), make(chan struct{})
}

// now are the names, and what is closed when there are others.
func (p *Places) now() (names []string, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.names, p.mu.changed
}
