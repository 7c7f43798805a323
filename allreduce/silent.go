package allreduce

import (
	"errors"
	"math"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

var errSilent = errors.New("it gave nothing, and is gone by the plan")

// loseSilent names the contributors that are gone by the next plan and that this owner has waited
// for half of Stall: it would have named them soon. The leader knows, but this peer must not have
// to take its word for it. mu is not held.
func (rot *rotation) loseSilent(next slot.Plan) {
	var silent []slot.PeerID
	rot.r.mu.Lock()
	for _, p := range rot.own {
		for i, in := range p.inputs {
			if i != rot.r.self && in != nil && next.Gone.Has(i) && p.status == pieceOpen &&
				in.fails(rot.r.engine.cfg.Stall/2) {
				silent = append(silent, in.offer.Peer)
			}
		}
	}
	rot.r.mu.Unlock()
	for _, peer := range silent {
		rot.r.lose(peer, Connection, errSilent)
	}
}

// never is a time that does not come.
const never = math.MaxInt64

// fails says whether this owner has waited for the contributor for so long: it owes a frame, and
// the reducer has used up what it sent. The reduction's mu is held.
func (in *input) fails(wait time.Duration) bool {
	moved := in.moved.Load()
	return !in.left && len(in.full) == 0 && moved != never && time.Since(in.p.began)-time.Duration(moved) >= wait
}
