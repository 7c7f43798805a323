package embed

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/p2pdiloco/p2pdiloco"
)

// MaxElements bounds the length of a caller's vector.
const MaxElements = 1 << 40

// Vector is the caller's memory as a slice: nil for no memory. The slice must not outlive the call,
// except that of Join.
func Vector(memory unsafe.Pointer, elements uint64) ([]float32, error) {
	switch {
	case elements > MaxElements:
		return nil, faultOf(Invalid, fmt.Sprintf("a vector of %d elements: at most %d", elements, uint64(MaxElements)))
	case memory == nil && elements > 0:
		return nil, faultOf(Invalid, fmt.Sprintf("params is NULL, and elements is %d", elements))
	case uintptr(memory)%unsafe.Alignof(float32(0)) != 0:
		return nil, faultOf(Invalid, "params is not aligned for float32")
	case elements == 0:
		return nil, nil
	}
	return unsafe.Slice((*float32)(memory), elements), nil
}

// take begins a call on the node's vectors, which release ends. roundOpen says whether a round must
// be open for it.
func (n *node) take(roundOpen bool) (release func(), err error) {
	if n.ctx.Err() != nil {
		return nil, errNone
	}
	if !n.vectors.TryLock() {
		if n.ctx.Err() != nil {
			return nil, errNone
		}
		return nil, errBusy
	}
	switch open := n.round() != nil; {
	case open && !roundOpen:
		err = errOpen
	case !open && roundOpen:
		err = errBegin
	}
	if err != nil {
		n.vectors.Unlock()
		return nil, err
	}
	return n.vectors.Unlock, nil
}

func (n *node) round() round {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.round
}

func (n *node) setRound(r round) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.round = r
}

func (n *node) anchor(params []float32, timeout int32) (slot uint64, err error) {
	release, err := n.take(false)
	if err != nil {
		return 0, err
	}
	defer release()
	ctx, cancel := within(n.ctx, timeout)
	defer cancel()
	t, err := n.host.node(ctx)
	if err == nil {
		slot, err = t.Anchor(ctx, params)
	}
	if err == nil || errors.Is(err, p2pdiloco.ErrRunEnded) {
		n.seed.drop()
	}
	return slot, n.explain(ctx, err)
}

func (n *node) sync(params []float32, weight uint64) error {
	release, err := n.take(false)
	if err != nil {
		return err
	}
	defer release()
	if err := n.offer(params, weight); err != nil {
		return err
	}
	_, err = n.wait(n.ctx, params)
	return err
}

func (n *node) begin(params []float32, weight uint64) error {
	release, err := n.take(false)
	if err != nil {
		return err
	}
	defer release()
	return n.offer(params, weight)
}

func (n *node) finish(params []float32, timeout int32) (slot uint64, err error) {
	release, err := n.take(true)
	if err != nil {
		return 0, err
	}
	defer release()
	ctx, cancel := within(n.ctx, timeout)
	defer cancel()
	return n.wait(ctx, params)
}

// offer begins a round.
func (n *node) offer(params []float32, weight uint64) error {
	t, ok, err := n.trainee()
	if err == nil && !ok {
		return p2pdiloco.ErrNoAnchor
	}
	if err != nil {
		return n.explain(n.ctx, err)
	}
	r, err := t.begin(params, weight)
	if err != nil {
		return n.explain(n.ctx, err)
	}
	n.setRound(r)
	return nil
}

// wait finishes the round. The round stays open if the time is over, or if the vector has the wrong
// length.
func (n *node) wait(ctx context.Context, params []float32) (slot uint64, err error) {
	slot, err = n.round().Finish(ctx, params)
	err = n.explain(ctx, err)
	if !errors.Is(err, errAgain) && !errors.Is(err, p2pdiloco.ErrLength) {
		n.setRound(nil)
	}
	return slot, err
}

// poll says whether finish would have to wait.
func (n *node) poll(timeout int32) error {
	r := n.round()
	if r == nil {
		return errBegin
	}
	ctx, cancel := within(n.ctx, timeout)
	defer cancel()
	select {
	case <-r.Done():
	case <-ctx.Done():
		if !closed(r.Done()) {
			return n.explain(ctx, ctx.Err())
		}
	}
	if err := r.Err(); !errors.Is(err, p2pdiloco.ErrRunEnded) {
		return n.explain(ctx, err)
	}
	return nil // finish says it, and has the last anchor
}
