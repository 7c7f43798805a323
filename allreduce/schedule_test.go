package allreduce

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
)

// A hello of the other schedule than the running one finds nothing here. No honest peer sends one
// for the running group, which names its ring. It waits like every other hello of a plan that has
// not arrived, and is refused where that plan is not newer than the running one.
func TestHelloOfTheOtherSchedule(t *testing.T) {
	older, newer := func(h *hello) { h.Revision-- }, func(h *hello) { h.Revision++ }
	for _, c := range []struct {
		name   string
		ring   bool // runs here
		from   int
		change func(*hello)
		want   error
	}{
		{"ring hello to a rotation, of the running plan", false, 1, nil, errUnwanted},
		{"ring hello to a rotation, of an older plan", false, 1, older, errUnwanted},
		{"ring hello to a rotation, of a newer plan", false, 1, newer, errEarly},
		{"a stranger's ring hello to a rotation, of the running plan", false, 7, nil, errUnwanted},
		{"a stranger's ring hello to a rotation, of a newer plan", false, 7, newer, errEarly},
		{"rotation hello to a ring, of the running plan", true, 1, nil, errUnwanted},
		{"rotation hello to a ring, of an older plan", true, 1, older, errUnwanted},
		{"rotation hello to a ring, of a newer plan", true, 1, newer, errEarly},
		{"a stranger's rotation hello to a ring, of a newer plan", true, 7, newer, errUnwanted},
		{"the own rotation hello to a ring, of a newer plan", true, 0, newer, errUnwanted},
		{
			"rotation hello to a ring, of a newer plan for another layout", true, 1,
			func(h *hello) { newer(h); h.Frames++ }, errUnwanted,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, testParams(1000, 100), 3, rand.New(rand.NewPCG(9, 9)))
			g.plan.Revision = 3
			if c.ring {
				g.plan.Ring = []uint16{0, 1, 2}
			}
			r := g.start(0)
			h := hello{
				Run: testRun, Ref: g.plan.Ref, Revision: g.plan.Revision, Group: g.plan.Group(), Ring: !c.ring,
			}
			if h.Ring {
				h.Round = plan.KeyOf(g.plan)
			} else {
				h.Range, h.Frames = g.plan.Pieces[0].Range, uint32(r.grid.Frames)
			}
			if c.change != nil {
				c.change(&h)
			}
			before, after := r.received.Load(), uint64(0)
			in, err := r.attach(peerName(c.from), h)
			if after = r.received.Load(); in != nil || !errors.Is(err, c.want) || after != before {
				t.Errorf("got %v, %v, and %d bytes are counted; want %v", in, err, after-before, c.want)
			}
			r.Release()
			if in, err := r.attach(peerName(c.from), h); in != nil || !errors.Is(err, ErrClosed) {
				t.Errorf("got %v, %v of a reduction that has ended", in, err)
			}
			g.close()
		})
	}
}
