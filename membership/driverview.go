package membership

import "sync"

// core is the machine. The loop steps it, and others ask it for records.
type core struct {
	mu struct {
		sync.Mutex
		machine *Machine
	}
}

func newCore(m *Machine) *core {
	c := &core{}
	c.mu.machine = m
	return c
}

// views is the newest view, and a way to wait for the next one.
type views struct {
	mu struct {
		sync.Mutex
		now     View
		changed chan struct{} // closed at the next change
	}
}

func newViews(first View) *views {
	v := &views{}
	v.mu.now, v.mu.changed = first, make(chan struct{})
	return v
}

// get returns the newest view, and a channel that is closed when a newer one comes.
func (v *views) get() (View, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.now, v.mu.changed
}

func (v *views) publish(now View) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mu.now = now
	close(v.mu.changed)
	v.mu.changed = make(chan struct{})
}
