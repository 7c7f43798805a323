package embed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/p2pdiloco/p2pdiloco"
)

// node is one peer from join to close.
type node struct {
	cfg    p2pdiloco.Config
	seed   *seed
	events *events
	began  time.Time

	ctx    context.Context // ends when the node leaves or closes: so do calls that wait
	cancel context.CancelFunc
	crash  context.CancelFunc // ends a leave that waits
	stay   context.Context    // ends with crash
	gone   chan struct{}      // closed when all is over

	joined chan struct{} // closed when the run was found, or could not be
	peer   peer          // once joined; nil if that failed
	failed error         // once joined

	vectors sync.Mutex // held by the call that is at work on them; only ever tried
	mu      struct {
		sync.Mutex
		ending  bool
		round   round // begun and not finished
		started p2pdiloco.Event
	}
}

// open starts a node.
func open(config string, params []float32, stderr io.Writer, join func(context.Context, p2pdiloco.Config) (peer, error)) (*node, error) {
	if !utf8.ValidString(config) {
		return nil, faultOf(Invalid, "config is not UTF-8")
	}
	cfg, err := parse(config, stderr)
	if err != nil {
		return nil, &fault{Invalid, err}
	}
	if d := cfg.Spec.Layout.Elements(); len(cfg.Spec.Layout) > 0 && params != nil && uint64(len(params)) != d {
		return nil, faultOf(Invalid, fmt.Sprintf("%d initial parameters, the layout has %d elements: give as many, or none for zeros", len(params), d))
	}
	n := &node{seed: &seed{}, events: newEvents(), began: time.Now(), gone: make(chan struct{}), joined: make(chan struct{})}
	n.seed.mu.params = params
	if params != nil && cfg.InitFile == "" {
		cfg.Init = n.seed.write
	}
	cfg.OnEvent = n.onEvent
	if err := cfg.Validate(); err != nil {
		return nil, &fault{Invalid, err}
	}
	n.cfg = cfg
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.stay, n.crash = context.WithCancel(context.Background())
	go n.join(join)
	return n, nil
}

// join finds the run. It ends with n.ctx at the latest, and close waits for it.
func (n *node) join(join func(context.Context, p2pdiloco.Config) (peer, error)) {
	defer close(n.joined)
	defer func() {
		if n.peer == nil {
			n.seed.drop()
			n.events.end()
		}
	}()
	n.failed = apart(func() (err error) { n.peer, err = join(n.ctx, n.cfg); return err })
}

func (n *node) onEvent(e p2pdiloco.Event) {
	if e.Name == "peer.started" {
		n.mu.Lock()
		n.mu.started = e
		n.mu.Unlock()
	}
	n.events.add(e)
}

// within is a context for a call that waits for so many milliseconds at most, or for ever if they are negative.
func within(ctx context.Context, timeout int32) (context.Context, context.CancelFunc) {
	if timeout < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(timeout)*time.Millisecond)
}

// await waits for the peer that joined.
func (n *node) await(ctx context.Context) (peer, error) {
	select {
	case <-n.joined:
	default:
		select {
		case <-n.joined:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if n.failed != nil {
		return nil, n.failed
	}
	return n.peer, nil
}

// explain says what an error of a call on this node means to the caller.
func (n *node) explain(ctx context.Context, err error) error {
	switch {
	case err == nil || errors.Is(err, p2pdiloco.ErrRunEnded):
		return err
	case n.ctx.Err() != nil:
		return errClosed
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return errAgain
	}
	return err
}

// progress does nothing before there is an anchor to start from.
func (n *node) progress(stepsDone uint64) {
	select {
	case <-n.joined:
		if n.peer != nil {
			n.peer.Progress(int(min(stepsDone, math.MaxUint32)))
		}
	default:
	}
}

// status is the peer's, or before there is one that it searches, or why it does not.
func (n *node) status() (string, error) {
	s := p2pdiloco.Status{Run: n.cfg.Spec.Name, Phase: p2pdiloco.PhaseSearching, Members: []p2pdiloco.MemberStatus{}, Uptime: time.Since(n.began)}
	select {
	case <-n.joined:
		if n.peer != nil {
			s = n.peer.Status()
		} else {
			s.Phase, s.Reason = p2pdiloco.PhaseClosed, Text(n.failed)
		}
	default:
		n.mu.Lock()
		s.Peer = n.mu.started.Peer
		s.Addrs, _ = n.mu.started.Fields["addrs"].([]string)
		n.mu.Unlock()
	}
	b, err := json.Marshal(s)
	return string(b), err
}

// leave is close with a farewell.
func (n *node) leave(timeout int32) error {
	if !n.end() {
		return errNone
	}
	return n.shut(func(p peer) error {
		ctx, cancel := within(n.stay, timeout)
		defer cancel()
		err := p.Leave(ctx)
		switch {
		case n.stay.Err() != nil:
			return errClosed
		case errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("the others did not agree within %d ms that this peer leaves: it is gone all the same, which looks like a crash to them", timeout)
		}
		return err
	})
}

// close returns when nothing of the node runs any more, whoever ended it.
func (n *node) close() error {
	n.crash()
	if !n.end() {
		<-n.gone
		return nil
	}
	return n.shut(peer.Close)
}

// end says whether the caller is the first to end the node, and ends the calls that wait.
func (n *node) end() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.ending {
		return false
	}
	n.mu.ending = true
	n.cancel()
	return true
}

// shut has the peer end, and waits for whoever is still at work on the vectors.
func (n *node) shut(end func(peer) error) error {
	defer close(n.gone)
	defer n.events.end()
	defer n.crash()
	<-n.joined
	var err error
	if n.peer != nil {
		err = end(n.peer)
	}
	n.vectors.Lock()
	defer n.vectors.Unlock()
	n.seed.drop()
	return err
}

func (n *node) isGone() bool {
	select {
	case <-n.gone:
		return true
	default:
		return false
	}
}
