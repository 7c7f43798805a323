package embed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
)

// node is one peer from join to close.
type node struct {
	host   host
	run    string
	seed   *seed
	events *events
	began  time.Time

	ctx    context.Context // ends when the node leaves or closes, and with it all calls that wait
	cancel context.CancelFunc
	stay   context.Context // ends when the node closes, and with it a Leave that waits
	crash  context.CancelFunc
	watch  sync.WaitGroup
	gone   chan struct{} // closed when all is over

	// held by the call that works on them. Calls only try to lock it; the one that ends the node
	// waits
	vectors sync.Mutex
	mu      struct {
		sync.Mutex
		ending bool
		round  round // begun and not finished
	}
}

// newNode starts a node.
func newNode(config string, environ []string, params []float32,
	open func(*settings.Settings, peer.Options) (host, error),
) (*node, error) {
	if !utf8.ValidString(config) {
		return nil, faultOf(Invalid, "configuration: it is not UTF-8")
	}
	s, err := settings.Embedded([]byte(config), environ)
	if err != nil {
		return nil, err
	}
	cfg, err := s.Config()
	if err != nil {
		return nil, err
	}
	if d := s.Layout.Elements(); len(s.Layout) > 0 && params != nil && uint64(len(params)) != d {
		return nil, faultOf(Invalid, fmt.Sprintf("%d initial parameters, the layout has %d elements: give as many, "+
			"or none for zeros", len(params), d))
	}
	n := &node{
		run: cfg.Spec.Name, seed: newSeed(params), events: newEvents(), began: time.Now(),
		gone: make(chan struct{}),
	}
	o := peer.Options{OnEvent: n.events.add}
	if params != nil && cfg.InitFile == "" { // a file that the settings name takes their place
		o.Init = n.seed.write
	}
	if n.host, err = open(s, o); err != nil {
		return nil, err
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.stay, n.crash = context.WithCancel(context.Background())
	n.watch.Go(func() {
		if _, err := n.host.node(context.Background()); err != nil {
			n.seed.drop()
			n.events.end()
		}
	})
	return n, nil
}

// within is a context for a call that waits for at most so many milliseconds, without limit if they
// are negative.
func within(ctx context.Context, timeout int32) (context.Context, context.CancelFunc) {
	if timeout < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(timeout)*time.Millisecond)
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

// trainee is the node once it has joined; ok is false before, and where that failed.
func (n *node) trainee() (t trainee, ok bool, err error) {
	if !closed(n.host.Joined()) {
		return nil, false, nil
	}
	t, err = n.host.node(n.ctx)
	return t, err == nil, err
}

// progress has no effect before there is an anchor to start from.
func (n *node) progress(stepsDone uint64) {
	if t, ok, _ := n.trainee(); ok {
		t.Progress(int(min(stepsDone, math.MaxUint32)))
	}
}

// status is the peer's status. Before there is a peer it is that of a search, or the reason why
// there is none.
func (n *node) status() (string, error) {
	s, ok := n.host.Status()
	if !ok {
		s = p2pdiloco.Status{
			Run: n.run, Phase: p2pdiloco.PhaseSearching, Members: []p2pdiloco.MemberStatus{},
			Uptime: time.Since(n.began),
		}
	}
	if _, _, err := n.trainee(); err != nil {
		s.Phase, s.Reason = p2pdiloco.PhaseClosed, Text(err)
	}
	b, err := json.Marshal(s)
	return string(b), err
}

// leave announces the end to the other peers, and then closes.
func (n *node) leave(timeout int32) error {
	if !n.end() {
		return errNone
	}
	return n.shut(func() error {
		ctx, cancel := within(n.stay, timeout)
		defer cancel()
		err := n.host.Leave(ctx)
		switch {
		case n.stay.Err() != nil:
			return errClosed
		case errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("the others did not agree within %d ms that this peer leaves: it is gone all the same, "+
				"which looks like a crash to them", timeout)
		}
		return err
	})
}

// close returns when nothing of the node runs any more, even if another call ended it.
func (n *node) close() error {
	n.crash()
	if !n.end() {
		<-n.gone
		return nil
	}
	return n.shut(n.host.Close)
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

// shut ends the peer, and waits for the call that still works on the vectors.
func (n *node) shut(end func() error) error {
	defer close(n.gone)
	defer n.events.end()
	defer n.crash()
	err := end()
	n.watch.Wait()
	n.vectors.Lock()
	defer n.vectors.Unlock()
	n.seed.drop()
	return err
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
