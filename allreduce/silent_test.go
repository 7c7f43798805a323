package allreduce

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// All owners that wait for a contributor when the plan goes on without it name it, though the
// report of one was enough for the leader. One that has done all that it owes is named by nobody,
// whatever the plan says.
func TestWhoIsGoneAndSilentIsNamedByAll(t *testing.T) {
	const silent, gone = 3, 2
	for name, says := range map[string]int{"opens no stream": 0, "says hello": 1, "gives some frames": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroup(t, testParams(4000, 100), 4, rand.New(rand.NewPCG(9, 9)),
					func(c *Config) { c.Stall = 4 * time.Second })
				g.startAll(silent)
				for i := range silent {
					if says > 0 {
						g.beginsWith(silent, i, says-1)
					}
				}
				time.Sleep(3 * time.Second)
				g.revise(gone, silent)
				for _, i := range []int{0, 1} {
					g.start(i)
				}
				synctest.Wait()
				for _, i := range []int{0, 1} {
					onlyLost(t, "an owner", g.sinks[i], peerName(silent), Connection)
				}
				g.close()
			})
		})
	}
}

// A contributor that has come too late to be waited for long is not named.
func TestWhoIsGoneAtOnceIsNotNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, testParams(4000, 100), 4, rand.New(rand.NewPCG(9, 9)),
			func(c *Config) { c.Stall = 4 * time.Second })
		g.startAll(3)
		time.Sleep(time.Second)
		g.isGoneForNobody(3)
		g.close()
	})
}

// A contributor whose frame comes all the time, however slowly, is not silent: others judge its
// pace.
func TestWhoseFrameComesIsNotNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, testParams(4000, 100), 4, rand.New(rand.NewPCG(9, 9)),
			func(c *Config) { c.Stall = 4 * time.Second })
		g.startAll(3)
		for to := range 3 {
			g.drips(3, to)
		}
		time.Sleep(2500 * time.Millisecond)
		g.isGoneForNobody(3)
		time.Sleep(2 * time.Second)
		g.close()
	})
}

// A contributor whose frames wait for those of another one owes nothing meanwhile.
func TestWhoseFramesWaitIsNotNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, testParams(4000, 100), 4, rand.New(rand.NewPCG(9, 9)),
			func(c *Config) { c.Stall = 4 * time.Second })
		g.startAll(2, 3)
		for to := range 2 {
			g.beginsWith(3, to, 2)
		}
		time.Sleep(3 * time.Second)
		g.isGoneForNobody(3)
		g.close()
	})
}

// isGoneForNobody revises the plan to one without a contributor, and fails if an owner names it.
func (g *group) isGoneForNobody(gone int) {
	g.t.Helper()
	g.revise(gone)
	for i := range gone {
		g.start(i)
	}
	synctest.Wait()
	for i := range gone {
		if lost := g.sinks[i].lost(); len(lost) > 0 {
			g.t.Errorf("owner %d names %v", i, lost)
		}
	}
}

// firstFrame returns the first frame of the first piece of an owner, and the contributor's grid.
func (g *group) firstFrame(from, to int) (first int, grid plan.Grid) {
	grid = g.engines[from].grids[0]
	at := slices.IndexFunc(g.plan.Pieces, func(p slot.Piece) bool { return p.Owner == peerName(to) })
	first, _ = grid.FramesOf(g.plan.Pieces[at].Range)
	return first, grid
}

// drips plays a contributor that sends a byte of its first frame each 10 ms.
func (g *group) drips(from, to int) {
	l, s := g.dial(from, to)
	if err := l.writeAll(g.opening(from, to)); err != nil {
		g.t.Fatal(err)
	}
	first, grid := g.firstFrame(from, to)
	frame := grid.Frame(g.own[from].data, first)
	all := append(header{kindRaw, uint32(first), uint32(len(frame))}.Append(nil), frame...)
	go func() {
		for _, b := range all {
			if _, err := s.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
}

// beginsWith plays a contributor to the first piece of an owner that sends so many frames and then
// nothing.
func (g *group) beginsWith(from, to, frames int) {
	g.t.Helper()
	l, _ := g.dial(from, to)
	if err := l.writeAll(g.opening(from, to)); err != nil {
		g.t.Fatal(err)
	}
	first, grid := g.firstFrame(from, to)
	for f := first; f < first+frames; f++ {
		if err := l.writeFrame(kindRaw, f, grid.Frame(g.own[from].data, f)); err != nil {
			g.t.Fatal(err)
		}
	}
}
