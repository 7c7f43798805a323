package allreduce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// dial opens a stream from one peer's name to another's engine, for tests that speak the protocol
// by hand.
func (g *group) dial(from, to int) (*link, wire.Stream) {
	s, _ := transport{g, from}.Open(context.Background(), peerName(to))
	return &link{s: s, stall: time.Minute, sent: new(atomic.Uint64)}, s
}

// play has the test answer the stream that peer 0 opens.
func (g *group) play() *link {
	theirs, ours := testutil.Pipe(1 << 20)
	g.engines[0].cfg.Transport = opens{theirs}
	return &link{s: ours, stall: time.Minute, sent: new(atomic.Uint64)}
}

// opens opens one stream, whoever it is to.
type opens struct{ s wire.Stream }

func (o opens) Open(context.Context, slot.PeerID) (wire.Stream, error) { return o.s, nil }

// hello is what a peer says first to the owner of a piece, or to the next one in a ring.
func (g *group) hello(to int) hello {
	return hello{
		Run: testRun, Ref: g.plan.Ref, Revision: g.plan.Revision, Group: g.plan.Group(),
		Range: g.pieceOf(to).Range, Frames: uint32(len(g.own[to].leaves)),
		Ring: len(g.plan.Ring) > 0, Round: plan.KeyOf(g.plan),
	}
}

// pieceOf is an owner's first piece.
func (g *group) pieceOf(owner int) slot.Piece {
	return g.plan.Pieces[slices.IndexFunc(g.plan.Pieces, func(p slot.Piece) bool { return p.Owner == peerName(owner) })]
}

// opening is the hello and what follows it: the leaves of a contribution, or the table of a peer
// that has nothing.
func (g *group) opening(from, to int) []byte {
	b := g.hello(to).Append(nil)
	if len(g.plan.Ring) > 0 {
		return append(b, make([]byte, 4*len(g.plan.Pieces))...)
	}
	for _, l := range g.own[from].leaves {
		b = l.Append(b)
	}
	return b
}

// frame is what a contributor says of the k-th frame of an owner's piece.
func (g *group) frame(from, to, k int) []byte {
	grid := g.engines[0].grids[0]
	first, _ := grid.FramesOf(g.pieceOf(to).Range)
	b := grid.Frame(g.own[from].data, first+k)
	return append(header{kindRaw, uint32(first + k), uint32(len(b))}.Append(nil), b...)
}

// begin plays a contributor to an owner that sends so many frames.
func (g *group) begin(l *link, from, to, frames int) {
	g.t.Helper()
	b := g.opening(from, to)
	for k := range frames {
		b = append(b, g.frame(from, to, k)...)
	}
	if err := l.writeAll(b); err != nil {
		g.t.Fatal(err)
	}
}

// accept runs Accept on bytes that end, and returns its error.
func (g *group) accept(from, to int, b []byte) error {
	a, s := testutil.Pipe(len(b) + 1)
	_, _ = a.Write(b)
	_ = a.CloseWrite()
	return g.engines[to].Accept(peerName(from), s)
}

// role is what a test plays: a contributor to peer 0, an owner of whom peer 0 is a contributor, or
// the peer before peer 1 in a ring.
type role int

const (
	contributor role = iota
	owner
	neighbour
)

// stage runs f with a group for a role: says and hears are who the test is, and who runs.
func (ro role) stage(t *testing.T, f func(g *group, says, hears int)) {
	n, says, hears := 2, 1, 0
	if ro == neighbour {
		n, says, hears = 3, 0, 1
	}
	bubble(t, testParams(40, 4), n, time.Minute, func(g *group) {
		if g.silent = n - 1; ro == neighbour {
			g.plan.Ring = []uint16{0, 1, 2}
		}
		f(g, says, hears)
	})
}

// good is what an honest peer would go on to say: an owner, if its own values were the outcome.
func (ro role) good(g *group) (b []byte) {
	grid := g.engines[0].grids[0]
	switch ro {
	case contributor:
		for k := range 5 {
			b = append(b, g.frame(1, 0, k)...)
		}
	case owner:
		first, last := grid.FramesOf(g.pieceOf(1).Range)
		for f := first; f < last; f++ {
			raw := grid.Frame(g.own[1].data, f)
			b = append(header{kindReduced, uint32(f), uint32(len(raw))}.Append(b), raw...)
		}
		piece := grid.Bytes(g.own[1].data, first, last)
		row := slot.FigureRow{Of: make([]slot.Figure, 2)}
		b = appendFigures(b, slices.Repeat([]slot.FigureRow{row}, last-first))
		b = appendRoot(b, slot.Cut(piece, grid.FrameBytes).Root(grid.FrameBytes))
	case neighbour:
		first, _ := grid.FramesOf(g.plan.Pieces[2].Range) // begins at peer 0
		b = slices.Concat(partialOf(first, 1, 2, 3, 4), partialOf(first+1, 5, 6, 7, 8))
	}
	return b
}

func partialOf(f int, values ...float32) []byte {
	b := kernel.Bytes(values)
	return append(header{kindPartial, uint32(f), uint32(len(b))}.Append(nil), b...)
}

// say plays the role to its end: what is said after the opening, of which the last bytes are cut.
func (ro role) say(g *group, says, hears, cut int, b []byte) {
	var s wire.Stream
	if ro == owner {
		s = g.play().s
		g.start(hears)
	} else {
		g.start(hears)
		_, s = g.dial(says, hears)
		opening := g.opening(says, hears)
		b = append(opening[:max(0, len(opening)-cut)], b...)
	}
	_, _ = s.Write(b)
	_ = s.CloseWrite()
	time.Sleep(time.Second)
	_ = s.Reset()
}

// Whatever a peer in the group says, it alone is named and nothing hangs.
func TestWhatNoHonestPeerSays(t *testing.T) {
	put := func(at int, v byte) func(b []byte) []byte {
		return func(b []byte) []byte { b[at] = v; return b }
	}
	head := func(kind frameKind, index, length uint32) func([]byte) []byte {
		return func([]byte) []byte { return header{kind, index, length}.Append(nil) }
	}
	partial := func(offset int, values ...float32) func([]byte) []byte {
		return func(b []byte) []byte { return partialOf(int(b[4])+offset, values...) }
	}
	first := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	const frame = headerSize + 16
	for _, c := range []struct {
		name string
		role role
		cut  int // of the opening
		want Reason
		say  func(good []byte) []byte
	}{
		{"cut in the hashes", contributor, 5, Connection, first(0)},
		{"nothing more", contributor, 0, Connection, first(0)},
		{"cut in a frame", contributor, 0, Connection, first(frame - 6)},
		{"unknown kind", contributor, 0, BadBytes, put(0, 200)},
		{"a huge length", contributor, 0, BadBytes, put(5, 255)},
		{"another frame", contributor, 0, BadBytes, put(4, 1)},
		{"the wrong direction", contributor, 0, BadBytes, put(0, byte(kindReduced))},
		{"other values", contributor, 0, BadBytes, put(headerSize, 77)},

		{"another root", owner, 0, BadBytes, func(b []byte) []byte { b[len(b)-1]++; return b }},
		{"changed frame", owner, 0, BadBytes, put(headerSize, 77)},
		{"an early root", owner, 0, BadBytes, func(b []byte) []byte { return b[len(b)-headerSize-32:] }},
		{"figures twice", owner, 0, BadBytes, func(b []byte) []byte {
			figures := b[5*frame : len(b)-headerSize-32]
			return slices.Concat(b[:5*frame], figures, figures)
		}},
		{"raw frames", owner, 0, BadBytes, put(0, byte(kindRaw))},
		{"an end", owner, 0, Connection, func(b []byte) []byte { return b[:len(b)-1] }},
		{"a refusal", owner, 0, Refused, func([]byte) []byte { return appendRefuse(nil, BadValue) }},
		{"nothing at all", owner, 0, Connection, first(0)},

		{"a table that cannot be", neighbour, 12, BadBytes, func([]byte) []byte {
			return []byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		}},
		{"NaN", neighbour, 0, BadValue, partial(0, 1, nan, 2, 3)},
		{"Inf", neighbour, 0, BadValue, partial(0, 1, 2, inf, 3)},
		{"too large", neighbour, 0, BadValue, partial(0, 1, 2, 3, 2*kernel.Limit)},
		{"short", neighbour, 0, BadBytes, partial(0, 1, 2, 3)},
		{"long", neighbour, 0, BadBytes, partial(0, 1, 2, 3, 4, 5)},
		{"beyond the end", neighbour, 0, BadBytes, partial(3, 1, 2, 3, 4)},
		{"a piece that begins here", neighbour, 0, BadBytes, put(4, 0)},
		{"twice", neighbour, 0, BadBytes, func(b []byte) []byte { return append(b[:frame:frame], b...) }},
		{"with a gap", neighbour, 0, BadBytes, put(frame+4, 9)},
		{"reduced too soon", neighbour, 0, BadBytes, head(kindPassed, 1, 16)},
		{"reduced of its own", neighbour, 0, BadBytes, head(kindPassed, 4, 16)},
		{"norms", neighbour, 0, BadBytes, head(kindNorms, 0, 80)},
		{"unknown kind", neighbour, 0, BadBytes, put(0, 200)},
		{"end of stream", neighbour, 0, Connection, first(0)},
	} {
		t.Run(fmt.Sprintf("%d: %s", c.role, c.name), func(t *testing.T) {
			c.role.stage(t, func(g *group, says, hears int) {
				c.role.say(g, says, hears, c.cut, c.say(c.role.good(g)))
				g.names([]int{hears}, says, c.want)
			})
		})
	}
	// The next one in a ring takes no more than a window.
	bubble(t, testParams(4*900, 4), 3, time.Minute, func(g *group) {
		g.plan.Ring, g.silent = []uint16{0, 1, 2}, 2
		g.start(1)
		first, _ := g.engines[0].grids[0].FramesOf(g.plan.Pieces[2].Range)
		_, s := g.dial(0, 1)
		b := g.opening(0, 1)
		for f := range g.running[1].schedule.(*rings).current.window + 1 {
			b = append(b, partialOf(first+f, 1, 2, 3, 4)...)
		}
		_, _ = s.Write(b)
		time.Sleep(time.Second)
		g.names([]int{1}, 0, BadBytes)
	})
}

// FuzzStreams gives a peer foreign bytes from a contributor, an owner or the one before in a ring:
// it names nobody else, and what it has reduced or taken is whole.
func FuzzStreams(f *testing.F) {
	f.Add(uint8(0), 0, -1, []byte{})
	for ro := range 3 {
		for _, cut := range []int{0, 5, 20} {
			f.Add(uint8(ro), cut, -1, []byte{})
			f.Add(uint8(ro), cut, 30, []byte{1, 2, 3})
			f.Add(uint8(ro), cut, 0, appendAlive(nil, 3))
			f.Add(uint8(ro), cut, 25, appendRefuse(nil, BadValue))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, cut, at int, b []byte) {
		ro := role(kind % 3)
		ro.stage(t, func(g *group, says, hears int) {
			good, whole := ro.good(g), at < 0 && len(b) == 0 && cut <= 0
			if at >= 0 {
				b = slices.Concat(good[:min(at, len(good))], b, good[min(at, len(good)):])
			} else {
				b = append(good, b...)
			}
			ro.say(g, says, hears, max(0, cut), b)
			lost := g.sinks[hears].lost()
			for peer := range lost {
				if peer != peerName(says) {
					t.Errorf("%s is named", peer)
				}
			}
			ok := g.running[hears].frames(g.pieceOf(int(ro)%2).Range).Bytes != nil
			if whole && !ok && ro != neighbour {
				t.Errorf("a good stream was not taken: %v", lost)
			}
		})
	})
}

// Streams that are not for a running plan are refused, and so is a second one of the same peer,
// whether they are of the schedule that runs or of the other. One that may be of a plan that has
// not arrived here waits for it. Nobody is named, and nothing is counted.
func TestUnwantedStreams(t *testing.T) {
	change := map[string]func(h *hello){
		"run": func(h *hello) { h.Run[0]++ }, "group": func(h *hello) { h.Group[0]++ },
		"older": func(h *hello) { h.Revision-- }, "newer": func(h *hello) { h.Revision++ },
		"ballot": func(h *hello) { h.Ref.Ballot-- }, "chain": func(h *hello) { h.Ref.Prev[0]++ },
		"before": func(h *hello) { h.Ref.Height-- }, "after": func(h *hello) { h.Ref.Height++ },
		"part": func(h *hello) { h.Range.End = 100; h.Round[0]++ }, "layout": func(h *hello) { h.Frames++ },
		"other": func(h *hello) { h.Ring = !h.Ring },
	}
	both, rotation, ring := []bool{false, true}, []bool{false}, []bool{true}
	for _, c := range []struct {
		hello string // how it differs from the one that belongs here
		runs  []bool // a ring or not
		from  int    // 0: this peer; 7: a stranger
		waits bool
	}{
		{"run", both, 1, false},
		{"group before", both, 1, false},
		{"group after", both, 1, true},
		{"group chain ballot", both, 1, true},
		{"group newer ballot", both, 1, false},
		{"group older", both, 1, false},
		{"group", both, 1, false},
		{"group newer", both, 1, true},
		{"part", both, 1, false},
		{"part older", both, 1, false},
		{"part newer", both, 1, true},
		{"", both, 7, false},
		{"", both, 0, false},
		{"", ring, 1, false}, // not the one before
		{"layout", rotation, 1, false},
		{"other", both, 1, false},
		{"other older", both, 1, false},
		{"other newer", both, 1, true},
		{"other newer", rotation, 7, true},
		{"other newer", ring, 7, false},
		{"other newer", ring, 0, false},
		{"other newer layout", ring, 1, false},
	} {
		for _, runs := range c.runs {
			t.Run(fmt.Sprintf("%s from %d, ring %v", c.hello, c.from, runs), func(t *testing.T) {
				bubble(t, testParams(1000, 100), 3, time.Minute, func(g *group) {
					g.plan.Revision, g.plan.Ballot, g.silent = 3, 3, 1
					if runs {
						g.plan.Ring = []uint16{0, 1, 2}
					}
					g.start(0)
					h := g.hello(0)
					for how := range strings.FieldsSeq(c.hello) {
						change[how](&h)
					}
					began := time.Now()
					err := g.accept(c.from, 0, h.Append(nil))
					waited := time.Since(began) >= time.Minute
					if !errors.Is(err, errUnwanted) || waited != c.waits {
						t.Errorf("got %v, and it waited: %v", err, waited)
					}
					r := g.running[0]
					if r.received.Load() > 0 {
						t.Error("its bytes are counted")
					}
					if !waited { // that loses who opens no stream
						g.nobody([]int{0})
					}
					r.Release()
					if in, err := r.attach(peerName(c.from), h); in != nil || !errors.Is(err, ErrClosed) {
						t.Errorf("got %v, %v of a reduction that has ended", in, err)
					}
				})
			})
		}
	}
	for _, ro := range []role{contributor, neighbour} {
		ro.stage(t, func(g *group, says, hears int) {
			g.start(hears)
			_, s := g.dial(says, hears)
			_, _ = s.Write(g.opening(says, hears))
			synctest.Wait()
			if err := g.accept(says, hears, g.opening(says, hears)); !errors.Is(err, errUnwanted) {
				t.Errorf("a second stream: %v", err)
			}
			g.nobody([]int{hears})
			for _, b := range [][]byte{nil, g.opening(says, hears)[:20], make([]byte, helloSize)} {
				if err := g.accept(says, hears, b); err == nil {
					t.Errorf("%d bytes were taken for a hello", len(b))
				}
			}
			_ = s.Reset()
		})
	}
}

// Streams that come before the plan wait for it, so that the order of arrival does not matter.
func TestStreamsWaitForThePlan(t *testing.T) {
	bubble(t, testParams(1000, 100), 3, time.Minute, func(g *group) {
		for range 2 {
			for i := range g.engines {
				time.Sleep(20 * time.Second)
				g.start(i)
			}
			g.check()
			g.plan.Revision++ // another group: a peer that is ahead waits for the others
			g.plan.Opened = slot.Opening{Ref: g.plan.Ref, Revision: g.plan.Revision}
		}
	})
}

// Waiting is bounded, in time and in number, and strangers, however many, do not keep the group's
// own streams out.
func TestPendingIsBounded(t *testing.T) {
	bubble(t, testParams(1000, 100), 2, time.Second, func(g *group) {
		e := g.engines[0]
		e.maxPending, e.maxPendingPeer = 3, 2
		e.cfg.Known = func(p slot.PeerID) bool { return strings.HasPrefix(string(p), "peer-") }
		for i := range 6 {
			g.wg.Go(func() {
				if err := g.accept(1+i/3, 0, g.opening(1, 0)); !errors.Is(err, errUnwanted) {
					t.Errorf("got %v", err)
				}
			})
		}
		g.wg.Wait()
		if e.mu.waiting != 0 || len(e.mu.pending) != 0 {
			t.Errorf("%d streams still counted", e.mu.waiting)
		}
		e.maxPending = 1024
		for i := range 1600 {
			_, s := testutil.Pipe(1) // says nothing: the stall limit ends it
			g.wg.Go(func() { _ = e.Accept(slot.PeerID(fmt.Sprint("stranger", i/16)), s) })
		}
		synctest.Wait()
		e.mu.Lock()
		waiting := e.mu.waiting
		e.mu.Unlock()
		if most := e.maxPending / 8; waiting != most {
			t.Errorf("%d streams of strangers wait, want %d", waiting, most)
		}
		g.wg.Wait()
	})
}

// A hello that comes byte by byte, each within the stall limit, ends when a hello at once would: a
// few strangers with such streams kept all places of peers that are not known, for 20 minutes each.
func TestAHelloIsNotDripped(t *testing.T) {
	const stall = 4 * time.Second
	bubble(t, testParams(1000, 100), 2, stall, func(g *group) {
		a, s := testutil.Pipe(helloSize)
		go func() {
			for _, b := range g.opening(1, 0)[:helloSize] {
				_, _ = a.Write([]byte{b})
				time.Sleep(stall)
			}
		}()
		began := time.Now()
		err := g.engines[0].Accept(peerName(1), s)
		if took := time.Since(began); !wire.TimedOut(err) || took > 2*stall {
			t.Errorf("it took %v: %v", took, err)
		}
		time.Sleep(helloSize * stall) // the writer has ended
	})
}

// Start refuses plans that do not fit (package plan says which), a contribution that was not
// offered, and all once the engine is closed.
func TestStartRefuses(t *testing.T) {
	bubble(t, testParams(1000, 100), 2, time.Minute, func(g *group) {
		e := g.engines[0]
		start := func(plan slot.Plan, own *Contribution) error {
			_, err := e.Start(g.t.Context(), plan, own, g.sinks[0])
			return err
		}
		gap := g.plan
		gap.Pieces = gap.Pieces[1:]
		if start(gap, g.own[0]) == nil || start(g.plan, g.own[1]) == nil {
			t.Error("a plan with a gap is taken, or another contribution than the one offered")
		}
		g.start(0, 1)
		_ = e.Close()
		if err := start(g.plan, g.own[0]); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Start: got %v", err)
		}
		if err := g.accept(1, 0, nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: got %v", err)
		}
	})
	_, err := New(Config{})
	for _, fault := range []string{"Self", "Transport", "fragments"} {
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("the error does not name %s: %v", fault, err)
		}
	}
}

// What has come of a piece is known while it is under way.
func TestComing(t *testing.T) {
	owner.stage(t, func(g *group, says, hears int) {
		l := g.play()
		g.start(hears)
		grid, piece := g.engines[0].outs[0], g.pieceOf(says)
		first, last := grid.FramesOf(piece.Range)
		for f := first; f < last; f++ {
			want := Coming{piece, uint64(grid.Size(first, f)), uint64(grid.Size(first, last))}
			if got := g.running[0].Coming(); len(got) != 1 || got[0] != want {
				t.Errorf("before frame %d: %v, want %v", f, got, want)
			}
			_ = l.writeFrame(kindReduced, f, bytes.Repeat([]byte{1}, grid.FrameSize(f)))
			synctest.Wait()
		}
		_ = l.s.Reset()
		time.Sleep(time.Second)
		if got := g.running[0].Coming(); len(got) != 0 {
			t.Errorf("of an owner that is lost: %v", got)
		}
	})
}
