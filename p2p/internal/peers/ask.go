package peers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// asking is one ask under way, or the last one that failed.
type asking struct {
	done chan struct{}
	err  error
	at   time.Time // when it failed
}

// ask asks a peer for admission, once for all goroutines that wait for that.
func (g *Gate) ask(ctx context.Context, to peer.ID) error {
	g.mu.Lock()
	a := g.mu.asking[to]
	switch {
	case a == nil || !a.at.IsZero() && time.Since(a.at) > AskAgain:
		a = g.begin(to)
	case !a.at.IsZero():
		g.mu.Unlock()
		return a.err
	}
	g.mu.Unlock()
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin starts to ask. mu is held.
func (g *Gate) begin(to peer.ID) *asking {
	a := &asking{done: make(chan struct{})}
	if len(g.mu.asking) >= maxAsked {
		maps.DeleteFunc(g.mu.asking, func(_ peer.ID, a *asking) bool { return !a.at.IsZero() })
	}
	g.mu.asking[to] = a
	started := g.calls.Enter()
	if started && !g.env.Tasks.Go(func() { defer g.calls.Leave(); g.ended(to, a, g.exchange(to)) }) {
		g.calls.Leave()
		started = false
	}
	if !started {
		a.err, a.at = fmt.Errorf("%w: the run is closed here", ErrNotAdmitted), time.Now()
		close(a.done)
	}
	return a
}

func (g *Gate) ended(to peer.ID, a *asking, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.err = err; err == nil {
		delete(g.mu.asking, to)
	} else {
		a.at = time.Now()
	}
	close(a.done)
}

func (g *Gate) exchange(to peer.ID) error {
	ctx, cancel := context.WithTimeout(g.calls.Context(), admitTimeout)
	defer cancel()
	s, err := g.env.Open(ctx, slot.PeerID(to), ProtocolAdmit)
	if err != nil {
		return err
	}
	defer s.Reset() //nolint:errcheck // everything wanted has been read
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	purges := g.purges()
	ask := g.keeper.Ask(slot.PeerID(to))
	if err := errors.Join(wire.WriteMessage(s, ask), s.CloseWrite()); err != nil {
		return fmt.Errorf("%w: %w", ErrNotAdmitted, err)
	}
	answer, err := wire.ReadMessage(s, maxAnswer)
	if err == nil {
		err = g.keeper.Judge(slot.PeerID(to), ask, answer)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotAdmitted, err)
	}
	if !g.admit(to, purges) {
		return fmt.Errorf("%w: the admitted peers have changed meanwhile: again", ErrNotAdmitted)
	}
	return nil
}

// Answer serves Protocol: it is the other side of exchange. Anybody may come here: it takes little
// to read, and less to refuse.
func (g *Gate) Answer(from slot.PeerID, s wire.Stream) {
	if !g.calls.Enter() {
		_ = s.Reset()
		return
	}
	defer g.calls.Leave()
	stop := context.AfterFunc(g.calls.Context(), func() { _ = s.Reset() })
	defer stop()
	_ = s.SetDeadline(time.Now().Add(admitTimeout))
	ask, err := wire.ReadMessage(s, maxAsk)
	if err != nil {
		_ = s.Reset()
		return
	}
	purges := g.purges()
	answer, admitted := g.keeper.Answer(from, ask)
	// before it can learn of it
	if admitted && !g.admit(peer.ID(from), purges) {
		_ = s.Reset()
		return
	}
	if err := wire.WriteMessage(s, answer); err != nil {
		g.env.Log.Debug("admission failed", "peer", from, "err", err)
		_ = s.Reset()
	}
}
