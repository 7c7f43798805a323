package replica

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/statesync"
)

// A draft's owners have stated what they reduced, so all that a peer still lacks is on its way to
// it. An owner may withhold these bytes, or drip them. A peer that waits has three answers:
//
//  1. Pieces that come too slowly are asked of the others, who may have them. If nobody has, it
//     waits on: an honest owner on a slow link is late for everybody.
//  2. If hardly anything comes of all the pieces that are missing, and nobody has them, it waits no
//     more. It reports the owners to the leader (missingError).
//  3. It waits for drippedStalls stalls at most, and drippedFactor times as long as the reduction
//     had taken before, and then does the same.
const (
	drippedStalls = 8
	drippedFactor = 4 // the reduction was slow on a slow link, too
)

// Once a quorum has the bytes, the reduction has a stall, and a part of the time that it has taken,
// to bring the last of them. Peers on slow links lack little then, and what drips is fetched
// elsewhere.
const certifiedPart = 4

// reductionLimit is how long to wait from now on for a reduction that has run for some time.
func (o *outcomes) reductionLimit(wanted outcome, ran time.Duration) time.Duration {
	if wanted.certified {
		return o.stall + ran/certifiedPart
	}
	return drippedStalls*o.stall + drippedFactor*ran
}

// awaitReduction waits for what the running reduction will bring anyway: a draft overtakes the last
// frames to some members. It waits as long as something comes, within limits.
func (o *outcomes) awaitReduction(ctx context.Context, wanted outcome, from []slot.PeerID) {
	r, began := o.reductions.running()
	listed := slices.ContainsFunc(wanted.contributions, func(c slot.Offer) bool { return c.Peer == o.self })
	if r == nil || r.Plan().Height != wanted.height || !listed {
		return
	}
	ran := time.Since(began)
	end := time.NewTimer(o.reductionLimit(wanted, ran))
	defer end.Stop()
	look := time.NewTicker(o.stall / 2)
	defer look.Stop()
	_, received := r.Traffic()
	for p := newPace(received, r.Coming(), o.stall, ran); ; {
		select {
		case <-r.Settled():
			return
		case <-wanted.held:
			return
		case <-look.C:
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
		_, received = r.Traffic()
		late, over := p.look(received, r.Coming())
		if over || len(late) > 0 && wanted.held == nil && o.bypass(ctx, r, wanted, late, from, p.most) {
			return
		}
	}
}

// bypass asks other peers for the pieces that come too slowly from their owners. It is true if the
// reduction has nothing else to bring. It ends if the reduction completes meanwhile, and after a
// time: a peer that withholds what it has may be among the others.
func (o *outcomes) bypass(ctx context.Context, r *allreduce.Reduction, wanted outcome, late []slot.Piece,
	from []slot.PeerID, most time.Duration,
) (all bool) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	settled := r.Settled()
	go func() {
		select {
		case <-settled:
			cancel()
		case <-ctx.Done():
		}
	}()
	data, fresh, missing, done := o.present(wanted)
	o.copyAndLend(wanted, data, fresh, done)
	lacking := func(piece slot.Piece) (segments []int) {
		for _, i := range missing {
			s := wanted.segments[i].Range
			if data[i].Bytes == nil && piece.Range.Begin <= s.Begin && s.End <= piece.Range.End {
				segments = append(segments, i)
			}
		}
		return segments
	}
	for _, piece := range late {
		ask := lacking(piece)
		others := slices.DeleteFunc(slices.Clone(from), func(p slot.PeerID) bool { return p == piece.Owner })
		if len(ask) == 0 || o.fetchMissing(ctx, wanted, ask, data, others) != nil {
			continue
		}
		o.lend(wanted, data)
		why := fmt.Sprintf("stalled: it sent its part of the outcome of slot %d so slowly that another peer gave it",
			r.Plan().Slot)
		o.dropped(statesync.Bad{Peer: piece.Owner, Reason: why})
	}
	return !slices.ContainsFunc(r.Coming(), func(c allreduce.Coming) bool { return len(lacking(c.Piece)) > 0 })
}

const (
	// leastBytes have to come of one of the missing pieces in the time of leastLooks. The slowest
	// link that counts as alive brings twice as much (package allreduce).
	leastBytes = 16 << 10
	leastLooks = 4
)

// pace watches what comes of the pieces that a reduction still lacks, from one look to the next.
type pace struct {
	every, most time.Duration // between two looks; that the rest of a piece may take
	received    uint64        // at the last look, alive messages included
	quiet       int           // looks since then
	came        map[slot.Piece]uint64
	earlier     map[slot.Piece]uint64 // a few looks ago
	looks       int                   // since then
	pause, rest int                   // looks between two questions to others, and until the next
}

// newPace begins to watch a reduction that has run for some time. The rest of a piece may
// take as long once more, and a stall.
func newPace(received uint64, coming []allreduce.Coming, stall, ran time.Duration) *pace {
	came := byPiece(coming)
	return &pace{every: stall / 2, most: stall + ran, received: received, came: came, earlier: came, pause: 1}
}

func byPiece(coming []allreduce.Coming) map[slot.Piece]uint64 {
	m := make(map[slot.Piece]uint64, len(coming))
	for _, c := range coming {
		m[c.Piece] = c.Bytes
	}
	return m
}

// look lists the pieces that come too slowly, where it is time to ask others for them: at first at
// once, and then after ever longer pauses. over says that there is nothing to wait for.
func (p *pace) look(received uint64, coming []allreduce.Coming) (late []slot.Piece, over bool) {
	if p.quiet++; received != p.received {
		p.quiet, p.received = 0, received
	}
	for _, c := range coming {
		came, left := float64(c.Bytes-p.came[c.Piece]), float64(c.Size-c.Bytes)
		if came == 0 || left/came > float64(p.most)/float64(p.every) {
			late = append(late, c.Piece)
		}
	}
	over = p.quiet >= 2 || p.hardlyAny(coming)
	p.came = byPiece(coming)
	if p.rest--; len(late) == 0 || p.rest > 0 {
		return nil, over
	}
	p.rest, p.pause = p.pause, 2*p.pause
	return late, over
}

// hardlyAny says whether less than leastBytes, and less than its rest, has come of every piece in
// leastLooks.
func (p *pace) hardlyAny(coming []allreduce.Coming) bool {
	if p.looks++; p.looks < leastLooks {
		return false
	}
	moves := func(c allreduce.Coming) bool {
		before := p.earlier[c.Piece]
		return c.Bytes-before >= min(leastBytes, max(1, c.Size-before))
	}
	hardly := len(coming) > 0 && !slices.ContainsFunc(coming, moves)
	p.looks, p.earlier = 0, byPiece(coming)
	return hardly
}
