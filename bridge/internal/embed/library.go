package embed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
)

// Library is a table of nodes. Its methods may be called from any goroutine; of those that work on
// one node's vectors (Anchor, Sync, Begin, Finish) one runs at a time, and the others get Busy. A
// timeout is in milliseconds; a negative one waits without limit.
type Library struct {
	environ func() []string
	open    func(*settings.Settings, peer.Options) (host, error)

	mu struct {
		sync.Mutex
		last  int64 // handle
		nodes map[int64]*node
		past  []leftover // events of closed nodes that may still be asked for, oldest first
	}
}

type leftover struct {
	handle int64
	events *events
}

const maxPast = 16 // closed nodes whose events are kept

// New makes an empty table. Each Join calls environ for the environment, in the form of os.Environ.
// Logs that a node's settings ask for go to stderr.
func New(environ func() []string, stderr io.Writer) *Library {
	l := &Library{environ: environ}
	l.open = func(s *settings.Settings, o peer.Options) (host, error) { return open(s, o, stderr) }
	l.mu.nodes = make(map[int64]*node)
	return l
}

// Join starts a node and returns at once; finding the run goes on in the background. config is a
// JSON object (settings.Embedded). params are the initial parameters in case this peer founds the
// run; nil means zeros. They are read until Anchor returns without error, or Close returns.
func (l *Library) Join(config string, params []float32) (handle int64, err error) {
	defer recovered(&err)
	n, err := newNode(config, l.environ(), params, l.open)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.last++
	l.mu.nodes[l.mu.last] = n
	return l.mu.last, nil
}

// Anchor waits until the peer is a member and holds the state, and copies the anchor into params;
// slot is the number of outer steps in it.
func (l *Library) Anchor(handle int64, params []float32, timeout int32) (slot uint64, err error) {
	return on(l, handle, func(n *node) (uint64, error) { return n.anchor(params, timeout) })
}

// Sync is Begin and Finish in one.
func (l *Library) Sync(handle int64, params []float32, weight uint64) error {
	return l.do(handle, func(n *node) error { return n.sync(params, weight) })
}

// Begin offers the pseudo-gradient anchor - params, without waiting.
func (l *Library) Begin(handle int64, params []float32, weight uint64) error {
	return l.do(handle, func(n *node) error { return n.begin(params, weight) })
}

// Poll waits until Finish would return at once.
func (l *Library) Poll(handle int64, timeout int32) error {
	return l.do(handle, func(n *node) error { return n.poll(timeout) })
}

// Finish waits until the slot is applied, and copies the new anchor into params; slot is the number
// of outer steps in it.
func (l *Library) Finish(handle int64, params []float32, timeout int32) (slot uint64, err error) {
	return on(l, handle, func(n *node) (uint64, error) { return n.finish(params, timeout) })
}

// Progress says how many inner steps of the round are done.
func (l *Library) Progress(handle int64, stepsDone uint64) error {
	return l.do(handle, func(n *node) error { n.progress(stepsDone); return nil })
}

// Status is what the node knows, as JSON.
func (l *Library) Status(handle int64) (status string, err error) {
	return on(l, handle, (*node).status)
}

// Event is the next event of a node, as JSON. The events of the nodes that were closed last are
// still there.
func (l *Library) Event(handle int64, timeout int32) (event string, err error) {
	defer recovered(&err)
	e := l.events(handle)
	if e == nil {
		return "", errNone
	}
	ctx, cancel := within(context.Background(), timeout)
	defer cancel()
	return e.next(ctx)
}

// Leave announces that the peer leaves, waits until the others have agreed or the timeout is over,
// and closes the node.
func (l *Library) Leave(handle int64, timeout int32) error {
	return l.do(handle, func(n *node) error {
		defer l.forget(handle, n)
		return n.leave(timeout)
	})
}

// Close closes a node at once. A handle that is unknown is no error.
func (l *Library) Close(handle int64) error {
	err := l.do(handle, func(n *node) error {
		defer l.forget(handle, n)
		return n.close()
	})
	if errors.Is(err, errNone) {
		return nil
	}
	return err
}

func (l *Library) do(handle int64, f func(*node) error) error {
	_, err := on(l, handle, func(n *node) (struct{}, error) { return struct{}{}, f(n) })
	return err
}

// on calls f with the node of a handle.
func on[T any](l *Library, handle int64, f func(*node) (T, error)) (result T, err error) {
	l.mu.Lock()
	n := l.mu.nodes[handle]
	l.mu.Unlock()
	if n == nil {
		return result, errNone
	}
	defer recovered(&err)
	return f(n)
}

// forget removes a handle after its node has closed.
func (l *Library) forget(handle int64, n *node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.nodes[handle] == nil || !closed(n.gone) {
		return
	}
	delete(l.mu.nodes, handle)
	l.mu.past = append(l.mu.past, leftover{handle, n.events})
	if len(l.mu.past) > maxPast {
		l.mu.past = append([]leftover(nil), l.mu.past[1:]...)
	}
}

func (l *Library) events(handle int64) *events {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.mu.nodes[handle]; n != nil {
		return n.events
	}
	for _, p := range l.mu.past {
		if p.handle == handle {
			return p.events
		}
	}
	return nil
}

// recovered is deferred. It turns a panic into an error, so that the host process survives.
func recovered(err *error) {
	if fault := recover(); fault != nil {
		*err = fmt.Errorf("a fault of this library, please report it: %v: %.1000s", fault, debug.Stack())
	}
}
