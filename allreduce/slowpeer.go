package allreduce

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A stream on which a byte comes now and then is alive, but the slot has to end. So an owner
// measures the time that each contributor takes for its frames while there is room for them, and
// goes on without a contributor that takes far longer than the others. An honest link may be about
// ten times slower than the others: the bytes that its peer sends as an owner share it, so up to
// three times as much shows here. A hostile peer cannot hold up a slot for longer either.
//
// An owner that learns of the plan later than the others finds their first frames there already. So
// what their streams waited for it counts as time that they took. It is Stall/4 at most, since a
// hostile leader can have an owner learn late: the owner then waits for twice as long at most.
const (
	// a contributor may take so many times what the faster half of the others took, and
	outpacedFactor = 32
	// so many Config.Stall on top: slowness costs little in short reductions
	outpacedStalls = 8
)

var (
	errOutpaced = errors.New("far slower than the others")
	errDrips    = errors.New("hardly anything comes")
)

// frameTimes is how long an input took for its frames. Only the reducing goroutine uses it.
type frameTimes struct {
	spent time.Duration // for the frames that came
	last  time.Time     // when the newest of them came; zero: none has
	out   bool          // it was judged too slow
	// the stream waited so long for the piece to begin; set before the first frame comes
	waited time.Duration
}

// count counts a frame that came at a time and could begin when there was room for it.
func (t *frameTimes) count(room, came time.Time) {
	if t.last.IsZero() {
		room = room.Add(-t.waited)
	}
	t.spent += max(0, came.Sub(later(t.last, room)))
	t.last = came
}

// until returns the time spent by now, the awaited frame included, and the time for that frame
// alone.
func (t *frameTimes) until(room, now time.Time) (all, frame time.Duration) {
	frame = max(0, now.Sub(later(t.last, room)))
	return t.spent + frame, frame
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// roomAt is when there was room for frame f: since the piece began, or since the frame a window
// before was reduced.
func (p *ownPiece) roomAt(f int) time.Time {
	if f-p.first < len(p.rooms) {
		return p.began
	}
	return p.rooms[(f-p.first)%len(p.rooms)]
}

// judge finds the contributors that the reducer waits for at frame f, and drops those that are far
// slower than the others.
func (p *ownPiece) judge(set []*input, f int) {
	now, room := time.Now(), p.roomAt(f)
	spent := make(map[*input]time.Duration, len(set))
	for _, in := range set {
		if in == nil || in.place == p.r.self {
			continue
		}
		if in.at == nil && !in.poll(f) {
			spent[in], _ = in.times.until(room, now)
		} else {
			spent[in] = in.times.spent
		}
	}
	for in := range spent {
		if in.at != nil || in.times.out || isClosed(in.gone) {
			continue
		}
		if err := p.tooSlow(in, spent, f, now); err != nil {
			in.times.out = true
			p.spawn(func() { in.outpaced(err) })
		}
	}
}

// tooSlow says why the owner should wait for a contributor no longer. spent has the times of all
// contributors with streams. Where there is only one, nothing tells which side is slow: it must
// then be as fast as the slowest link that counts as alive.
func (p *ownPiece) tooSlow(in *input, spent map[*input]time.Duration, f int, now time.Time) error {
	g, stall := p.r.grid, p.r.engine.cfg.Stall
	_, frame := in.times.until(p.roomAt(f), now)
	due := g.FrameSize(f)
	if f == p.first {
		due += g.Frames * len(slot.Root{})
	}
	if least := outpacedStalls*stall + time.Duration(float64(stall)*float64(due)/minChunk); frame > least {
		return fmt.Errorf("%w: %d bytes are due since %v", errDrips, due, frame.Round(time.Second))
	}
	var others []time.Duration
	for o, t := range spent {
		if o != in {
			others = append(others, t)
		}
	}
	if len(others) == 0 {
		return nil
	}
	slices.Sort(others)
	usual := others[(len(others)-1)/2]
	if spent[in] > outpacedStalls*stall+outpacedFactor*usual {
		return fmt.Errorf("%w: it took %v for what took them %v", errOutpaced, spent[in].Round(time.Millisecond),
			usual.Round(time.Millisecond))
	}
	return nil
}

// outpaced ends the contribution of a peer that is too slow. Reduced frames go to it until it has
// received the refusal: it fetches the piece elsewhere, and must not count this owner as lost.
func (in *input) outpaced(err error) {
	in.lost(Connection, err)
	in.refuse(Connection)
	time.AfterFunc(in.p.r.engine.cfg.Stall, in.cancel) // in case the peer does not read the refusal
}

// excuse ends the contribution to this piece of a peer that did nothing wrong. It is told so, as
// one that is too slow, and does not count this owner as lost.
func (in *input) excuse() {
	r := in.p.r
	r.mu.Lock()
	in.quit()
	in.excused = true
	r.mu.Unlock()
	in.refuse(Connection)
	time.AfterFunc(r.engine.cfg.Stall, in.cancel) // in case the peer does not read the refusal
}

var errSilent = errors.New("it gave nothing, and is gone by the plan")

// loseSilent names the contributors that are gone by the next plan and that this owner has waited
// for half of Stall: it would have named them soon. The leader knows, but this peer must not have
// to take its word for it. mu is not held.
func (rot *rotation) loseSilent(next slot.Plan) {
	var silent []slot.PeerID
	rot.r.mu.Lock()
	for _, p := range rot.pieces {
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
