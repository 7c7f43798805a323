package allreduce

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A byte now and then is life, so a stream that drips is never dead; but the slot has to end. So an owner keeps the time that each
// contributor takes for its frames while there is room for them, and goes on without one that takes far longer than the others. An
// honest link may be some ten times slower than theirs: what it sends as an owner shares it, while theirs are free to begin with, so that
// three times as much shows here. A hostile peer can hold up a slot for no longer either.
const (
	outpacedFactor = 32 // times what the others, their slower half left aside, took for the same frames, and
	outpacedStalls = 8  // so many Config.Stall on top: what is slow on short reductions costs little
)

var (
	errOutpaced = errors.New("far slower than the others")
	errDrips    = errors.New("hardly anything comes")
)

// tempo is how long an input took for its frames. It is the reducer's.
type tempo struct {
	spent time.Duration // for the frames that came
	last  time.Time     // when the newest of them came; zero: none has
	out   bool          // it was judged too slow
}

// took counts a frame in that came at a time, and could begin when there was room.
func (t *tempo) took(room, came time.Time) {
	t.spent += max(0, came.Sub(later(t.last, room)))
	t.last = came
}

// until is what it has taken by now, with the frame that is awaited; and what for that frame.
func (t *tempo) until(room, now time.Time) (all, frame time.Duration) {
	frame = max(0, now.Sub(later(t.last, room)))
	return t.spent + frame, frame
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// roomAt is when there was room for frame f: since the piece began, or since the frame a window before was reduced.
func (p *ownPiece) roomAt(f int) time.Time {
	if f-p.first < len(p.rooms) {
		return p.began
	}
	return p.rooms[(f-p.first)%len(p.rooms)]
}

// judge looks whom the reducer waits for at frame f, and goes on without those who are too slow for the others.
func (p *ownPiece) judge(set []*input, f int) {
	now, room := time.Now(), p.roomAt(f)
	spent := make(map[*input]time.Duration, len(set))
	for _, in := range set {
		if in == nil || in.place == p.r.self {
			continue
		}
		spent[in] = in.tempo.spent
		if in.at == nil && !in.poll(f) {
			spent[in], _ = in.tempo.until(room, now)
		}
	}
	for in := range spent {
		if in.at != nil || in.tempo.out || in.isGone() {
			continue
		}
		if err := p.tooSlow(in, spent, f, now); err != nil {
			in.tempo.out = true
			p.spawn(func() { in.outpaced(err) })
		}
	}
}

// isGone says whether no more frames come.
func (in *input) isGone() bool {
	select {
	case <-in.gone:
		return true
	default:
		return false
	}
}

// tooSlow says why the owner should wait for a contributor no longer. spent is by all that have streams. Where there is one such
// contributor only, nobody can say which side is slow: it must then be as fast as a link has to be that is not taken for dead.
func (p *ownPiece) tooSlow(in *input, spent map[*input]time.Duration, f int, now time.Time) error {
	g, stall := p.r.grid, p.r.engine.cfg.Stall
	_, frame := in.tempo.until(p.roomAt(f), now)
	due := g.frameSize(f)
	if f == p.first {
		due += g.frames * len(slot.Root{})
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
		return fmt.Errorf("%w: it took %v for what took them %v", errOutpaced, spent[in].Round(time.Millisecond), usual.Round(time.Millisecond))
	}
	return nil
}

// outpaced ends the contribution of a peer that is too slow. What is reduced goes to it until it has heard so: it gets the piece
// elsewhere, and need not take this owner for lost.
func (in *input) outpaced(err error) {
	in.lost(Connection, err)
	in.refuse(Connection)
	time.AfterFunc(in.p.r.engine.cfg.Stall, in.cancel) // for who does not hear
}
