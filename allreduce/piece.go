package allreduce

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// piece is what pieces have in common that are reduced here and that are fed to another owner.
type piece struct {
	slot.Piece
	of          *rotation
	r           *Reduction
	first, last int // frames [first, last) of the vector
	ctx         context.Context
	cancel      context.CancelFunc
	workers
	status pieceStatus // guarded by the reduction's mu
	// of an own piece: a contributor each, in peer-ID order, this peer included; nil: was lost
	// before the piece began
	inputs []*input
	closed []slot.Segment // ranges of an own piece that are reduced; guarded by the reduction's mu
	// bytes that came: hashes and frames of all contributors, or what the owner sent: what alive
	// messages tell
	taken atomic.Uint64
	// a row for each frame that is reduced, over the whole group; the reducer's until all is
	// reduced, and that of another owner guarded by the reduction's mu: nil until it has come
	figures []slot.FigureRow
}

func newPiece(of *rotation, p slot.Piece) *piece {
	np := &piece{Piece: p, of: of, r: of.r, workers: workers{all: &of.r.wg}}
	np.first, np.last = of.r.grid.FramesOf(p.Range)
	np.ctx, np.cancel = context.WithCancel(of.r.ctx)
	return np
}

// input is a contributor's, of an own piece; nil: there is none.
func (p *piece) input(place int) *input {
	if p.inputs == nil {
		return nil
	}
	return p.inputs[place]
}

// workers are the goroutines and streams of a part of a reduction, which are counted there, too.
type workers struct {
	all  *sync.WaitGroup // the reduction's
	part sync.WaitGroup
}

// enter counts a goroutine of the part, leave ends it. The reduction's mu is held, or another
// goroutine of the part runs.
func (w *workers) enter() {
	w.all.Add(1)
	w.part.Add(1)
}

func (w *workers) leave() {
	w.part.Done()
	w.all.Done()
}

// spawn runs f on a goroutine of the part.
func (w *workers) spawn(f func()) {
	w.enter()
	go func() {
		defer w.leave()
		f()
	}()
}

// end says what became of the piece.
func (p *piece) end(s pieceStatus) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if p.status == pieceOpen {
		p.status = s
		p.r.tally()
	}
}
