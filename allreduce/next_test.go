package allreduce

import (
	"bytes"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Each frame of the outcome is lent once, with its hash, as it is in the end.
func TestNextLendsEachFrameOnce(t *testing.T) {
	for _, c := range []struct {
		codec string
		ring  bool
	}{{"f32", false}, {"f32", true}, {"int8", false}} {
		p := testParams(30*256+77, 256)
		p.Codec = c.codec
		bubble(t, p, 4, time.Minute, func(g *group) {
			if c.ring {
				g.goRound()
			}
			g.start(g.rest()...)
			for i, r := range g.running {
				g.wg.Go(func() {
					frames := make([][]byte, r.out.Frames)
					for range frames {
						k, frame, done, ok := r.Next(g.t.Context())
						if !ok || frames[k] != nil || slot.Hash(frame.Bytes) != frame.Hashes[0] {
							t.Errorf("%+v: peer %d: %v, frame %d with another hash or once more", c, i, ok, k)
							return
						}
						frames[k] = slices.Clone(frame.Bytes)
						done()
					}
					<-r.Complete()
					if b := r.frames(slot.Range{End: p.Fragments[0]}).Bytes; !bytes.Equal(b, slices.Concat(frames...)) {
						t.Errorf("%+v: peer %d has other frames in the end", c, i)
					}
				})
			}
			g.check()
			g.wg.Wait()
			g.running[0].Release()
			if _, _, _, ok := g.running[0].Next(g.t.Context()); ok {
				t.Error("a reduction that was released lends a frame")
			}
		})
	}
}

// A frame that is lent stays as it is while its piece comes anew. Frames that came before are not
// lent any more then.
func TestNextWhileOwnersChange(t *testing.T) {
	for _, ring := range []bool{false, true} {
		mortal(t, 4, func(g *group) {
			if ring {
				g.goRound()
			}
			g.start(g.rest()...)
			g.check()
			r := g.running[0]
			moves, _ := r.out.FramesOf(g.plan.Pieces[1].Range)
			index, frame, done, ok := r.Next(g.t.Context())
			for ok && index != moves {
				done()
				index, frame, done, ok = r.Next(g.t.Context())
			}
			was := frame.Hashes[0]
			g.kill(1)
			g.wg.Go(func() {
				defer done()
				for range 5000 { // time enough for all to come anew
					if runtime.Gosched(); slot.Hash(frame.Bytes) != was {
						t.Errorf("ring %v: a frame changes that is lent", ring)
						return
					}
				}
			})
			g.finish(1)
			if r.hashes[moves] == was {
				t.Errorf("ring %v: the frame is as it was: this shows nothing", ring)
			}
			if _, _, _, ok = r.Next(g.t.Context()); ok {
				t.Errorf("ring %v: a frame is lent that may come anew", ring)
			}
		})
	}
}
