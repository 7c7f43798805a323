package allreduce

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// revise turns to another plan of the same group, in four steps:
//
//  1. pieces that are not in it any more stop: their owners are gone. In schedule ring all pieces
//     stop, since the circle is another one. In a rotation the owner first names the contributors
//     that are gone and that it has waited for, too;
//  2. it waits until their goroutines have ended, so that a range of the result has one writer;
//  3. the own pieces drop the contributors that are gone, and the new pieces or the new circle
//     start;
//  4. the sink is told once more of all own ranges that are closed: another leader may not know
//     them.
//
// All other pieces go on: no byte is sent twice.
func (r *Reduction) revise(plan slot.Plan, sink Sink) error {
	r.schedule.withdraw(plan)
	r.mu.Lock()
	if r.mu.ended {
		r.mu.Unlock()
		return ErrClosed
	}
	r.mu.plan, r.mu.sink = plan, sink
	r.schedule.turn()
	r.tally()
	closed := r.schedule.closed()
	r.mu.Unlock()
	for _, s := range closed {
		sink.SegmentDone(s)
	}
	return nil
}

// takeOut takes those that the next plan has no more out of a schedule's pieces. Nobody reads the
// bytes of any meanwhile. mu is not held.
func takeOut[P any](r *Reduction, pieces map[slot.Piece]P, next slot.Plan) (out []P) {
	r.reading.Lock()
	defer r.reading.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, p := range pieces {
		if !slices.Contains(next.Pieces, key) {
			delete(pieces, key)
			out = append(out, p)
		}
	}
	r.mu.reassigned = r.mu.reassigned || len(out) > 0
	return out
}
