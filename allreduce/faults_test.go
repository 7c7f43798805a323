package allreduce

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/internal/wire/wiretest"
)

// named waits until a sink has named somebody.
func (g *group) named(i int) {
	g.t.Helper()
	select {
	case <-g.sinks[i].losses:
	case <-time.After(2 * time.Minute):
		g.t.Fatalf("peer %d names nobody", i)
	}
}

// A NaN in every piece: each owner names the sender, and each tells it, and goes on without it
// where the NaN stood.
func TestBadValueIsNamed(t *testing.T) {
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(-1))} {
		g := newGroup(t, testParams(4000, 100), 4, rand.New(rand.NewPCG(1, 1)))
		const sender = 2
		for _, piece := range g.plan.Pieces {
			g.vectors[sender][piece.Range.End-3] = bad
		}
		g.own[sender] = commit(g.engines[0].grids[0], peerName(sender), kernel.Bytes(g.vectors[sender]))
		g.plan.Offers[sender].Root, g.plan.Offers[sender].NormSq = g.own[sender].Root(), g.own[sender].NormSq()
		g.startAll()
		for i := range g.engines {
			g.named(i)
			if i != sender {
				onlyLost(t, "an owner", g.sinks[i], peerName(sender), BadValue)
			}
		}
		for range 3 {
			g.named(sender)
		}
		for peer, reason := range g.sinks[sender].lost() {
			if want := map[bool]Reason{true: BadValue, false: Refused}[peer == peerName(sender)]; reason != want {
				t.Errorf("the sender has %s for %s, want %s", reason, peer, want)
			}
		}
		g.running = slices.Delete(g.running, sender, sender+1)
		g.wait()
		for _, s := range g.outcome() {
			at := slices.IndexFunc(g.plan.Pieces, func(p slot.Piece) bool { return p.Range.End > s.Range.Begin })
			piece := g.plan.Pieces[at].Range
			if first, nan := s.Range.Begin == piece.Begin, piece.End-3; s.Contributors.Has(sender) != first ||
				nan-nan%100 != s.Range.End && first {
				t.Errorf("range %v has contributors %v; the NaN stands at %d", s.Range, s.Contributors, nan)
			}
		}
	}
}

func TestCommitRefusesWhatIsNotFinite(t *testing.T) {
	p := testParams(10, 4)
	v := make([]float32, 10)
	v[7] = float32(math.Inf(1))
	if _, err := Commit(p, 0, "ada", kernel.Bytes(v)); reasonOf(err) != BadValue {
		t.Errorf("got %v", err)
	}
	if _, err := Commit(p, 0, "ada", kernel.Bytes(v)[:36]); err == nil {
		t.Error("a short contribution was taken")
	}
	v[7] = 1
	c, err := Commit(p, 0, "ada", kernel.Bytes(v))
	if err != nil || c.Root() != slot.ContributionRoot("ada", c.Leaves(), 16, 40) {
		t.Errorf("root %v, err %v", c.Root(), err)
	}
}

// Other bytes than were offered, by frame or by leaf: named by each owner that got them.
func TestBadBytesAreNamed(t *testing.T) {
	const sender = 1
	for name, change := range map[string]func(c *Contribution){
		"frames":        func(c *Contribution) { c.data[5]++; c.data[len(c.data)-6]++; c.data[len(c.data)/2]++ },
		"a leaf's hash": func(c *Contribution) { c.leaves[0].Hash[0]++ },
		"a leaf's norm": func(c *Contribution) { c.leaves[0].NormSq++ },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, testParams(3000, 100), 3, rand.New(rand.NewPCG(2, 2)))
			c := copyOf(g.own[sender])
			change(c)
			g.own[sender] = c
			g.startAll()
			for _, i := range []int{0, 2} {
				g.named(i)
				onlyLost(t, "an owner", g.sinks[i], peerName(sender), BadBytes)
			}
			g.revise(sender)
			g.startAll(sender)
			g.wait()
			g.check()
		})
	}
}

// A peer dies with frames under way: all name it and nobody else, and the revision without it
// completes.
func TestDeathMidWay(t *testing.T) {
	const victim = 3
	g := newGroup(t, testParams(40_000, 100), 5, rand.New(rand.NewPCG(4, 4)))
	var once sync.Once
	var dying sync.WaitGroup
	var frames atomic.Int32
	g.sinks[victim].progress = func() {
		if frames.Add(1) > 50 {
			once.Do(func() { dying.Go(func() { _ = g.engines[victim].Close() }) })
		}
	}
	g.startAll()
	for i := range g.engines {
		if i != victim {
			g.named(i)
			onlyLost(t, "a survivor", g.sinks[i], peerName(victim), Connection)
		}
	}
	dying.Wait()
	g.revise(victim)
	g.startAll(victim)
	g.wait()
	g.check()
}

// A peer that cannot be reached at all is named by those who would send to it.
func TestUnreachable(t *testing.T) {
	g := newGroup(t, testParams(1000, 100), 2, rand.New(rand.NewPCG(6, 6)))
	delete(g.net.mu.engines, peerName(1))
	g.start(0)
	g.named(0)
	onlyLost(t, "peer 0", g.sinks[0], peerName(1), Connection)
}

// frozen is a stream whose owner's process has stopped: nothing moves, nothing ends, until it is
// reset or a deadline passes.
type frozen struct {
	wire.Stream
	on *atomic.Bool
	// what the frozen end does instead goes to a pipe that nobody serves
	void *wiretest.Stream
}

func (f frozen) Read(b []byte) (int, error) {
	if f.on.Load() {
		return f.void.Read(b)
	}
	return f.Stream.Read(b)
}

func (f frozen) Write(b []byte) (int, error) {
	if f.on.Load() {
		return f.void.Read(make([]byte, 1))
	}
	return f.Stream.Write(b)
}

func (f frozen) Reset() error {
	_ = f.void.Reset()
	return f.Stream.Reset()
}

// A frozen peer holds everybody up; all must name it, and nobody the others that wait for it as
// well.
func TestStallNamesTheRightPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const victim = 1
		g := newGroup(t, testParams(20_000, 100), 5, rand.New(rand.NewPCG(7, 7)),
			func(c *Config) { c.Stall = 10 * time.Second })
		var on atomic.Bool
		g.net.wrap = func(local, _ slot.PeerID, s wire.Stream) wire.Stream {
			if local != peerName(victim) {
				return s
			}
			void, _ := wiretest.Pipe(1)
			return frozen{s, &on, void}
		}
		var frames atomic.Int32
		g.sinks[victim].progress = func() { on.Store(frames.Add(1) > 40) }
		g.startAll()
		time.Sleep(2 * time.Minute) // virtual: all limits have passed
		for i := range g.engines {
			if i != victim {
				onlyLost(t, "peer", g.sinks[i], peerName(victim), Connection)
			}
		}
		g.revise(victim)
		g.startAll(victim)
		g.wait()
		g.check()
		g.close()
	})
}

// slow passes few bytes at a time, but for the opening.
type slow struct {
	wire.Stream
	bytes int
	each  time.Duration
}

func (s slow) Write(b []byte) (int, error) {
	if len(b) > 420 {
		return s.Stream.Write(b)
	}
	time.Sleep(s.each)
	return s.Stream.Write(b[:min(s.bytes, len(b))])
}

// Links on which one frame takes several times the stall limit are slow, not dead: nobody is lost.
func TestSlowIsNotDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stall := 8 * time.Second
		g := newGroup(t, testParams(1200, 100), 4, rand.New(rand.NewPCG(8, 9)), func(c *Config) { c.Stall = stall })
		g.apart()
		g.net.wrap = func(local, _ slot.PeerID, s wire.Stream) wire.Stream {
			if local != peerName(2) {
				return slow{s, 200, stall / 2}
			}
			return slow{s, 30, stall / 2}
		}
		g.startAll()
		time.Sleep(time.Hour) // virtual
		g.check()
		for i, s := range g.sinks {
			if l := s.lost(); len(l) != 0 {
				t.Errorf("peer %d lost %v", i, l)
			}
		}
		g.close()
	})
}

// A contributor that says alive and sends nothing is named by the owner, before anybody would blame
// the owner.
func TestAliveIsNotEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, testParams(1000, 100), 2, rand.New(rand.NewPCG(9, 9)),
			func(c *Config) { c.Stall = time.Second })
		g.engines[0].cfg.Transport = aliveOnly{}
		g.start(0)
		l, s := g.dial(1, 0)
		if err := l.writeAll(g.opening(1, 0)); err != nil {
			t.Fatal(err)
		}
		for range 12 {
			time.Sleep(time.Second / 4)
			_ = l.writeAlive(0)
		}
		onlyLost(t, "the owner", g.sinks[0], peerName(1), Connection)
		_ = s.Reset()
		g.close()
	})
}

// An owner that says alive and never reduces is named in the end, though as a contributor it did
// all it should.
func TestIdleOwnerIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, testParams(1000, 100), 2, rand.New(rand.NewPCG(9, 9)),
			func(c *Config) { c.Stall = time.Second })
		g.engines[0].cfg.Transport = aliveOnly{}
		g.start(0)
		l, s := g.dial(1, 0)
		g.contribute(l, 1, 0)
		time.Sleep(3 * time.Second)
		if l := g.sinks[0].lost(); len(l) != 0 {
			t.Errorf("lost too early: %v", l)
		}
		time.Sleep(2 * time.Second)
		onlyLost(t, "the contributor", g.sinks[0], peerName(1), Connection)
		_ = s.Reset()
		g.close()
	})
}

// An owner that publishes its figures once more, and so on, gives nothing that is due: it breaks
// the protocol. The bytes of its piece that it has sent are known meanwhile.
func TestFiguresComeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, testParams(1000, 100), 2, rand.New(rand.NewPCG(9, 9)))
		owner, stream := wiretest.Pipe(1 << 20)
		g.engines[0].cfg.Transport = opens{owner}
		r := g.start(0)
		l := &link{s: stream, stall: time.Minute, sent: new(atomic.Uint64)}
		grid, piece := g.engines[0].outs[0], g.plan.Pieces[slices.IndexFunc(g.plan.Pieces, func(p slot.Piece) bool {
			return p.Owner == peerName(1)
		})]
		first, last := grid.FramesOf(piece.Range)
		for f := first; f < last; f++ {
			synctest.Wait()
			want := Coming{piece, uint64(grid.Size(first, f)), uint64(grid.Size(first, last))}
			if got := r.Coming(); len(got) != 1 || got[0] != want {
				t.Errorf("before frame %d: %v, want %v", f, got, want)
			}
			if err := l.writeFrame(kindReduced, f, make([]byte, grid.FrameSize(f))); err != nil {
				t.Fatal(err)
			}
		}
		row := slot.FigureRow{Of: make([]slot.Figure, 2)}
		figures := appendFigures(nil, slices.Repeat([]slot.FigureRow{row}, last-first))
		if err := l.writeAll(figures); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if l := g.sinks[0].lost(); len(l) != 0 {
			t.Errorf("lost too early: %v", l)
		}
		if err := l.writeAll(figures); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		onlyLost(t, "the contributor", g.sinks[0], peerName(1), BadBytes)
		if got := r.Coming(); len(got) != 0 {
			t.Errorf("of an owner that is lost: %v", got)
		}
		g.close()
	})
}

// opens opens one stream, whoever it is to.
type opens struct{ s wire.Stream }

func (o opens) Open(context.Context, slot.PeerID) (wire.Stream, error) { return o.s, nil }

// A peer that answers as an owner but opens no stream as a contributor is named after the stall
// limit.
func TestMissingStreamIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, testParams(1000, 100), 2, rand.New(rand.NewPCG(9, 9)),
			func(c *Config) { c.Stall = time.Second })
		g.engines[0].cfg.Transport = aliveOnly{}
		g.start(0)
		time.Sleep(3 * time.Second / 2)
		onlyLost(t, "the owner", g.sinks[0], peerName(1), Connection)
		g.close()
	})
}

// contribute plays peer from as a contributor to the owner of a piece, up to the last raw frame.
func (g *group) contribute(l *link, from, to int) {
	g.t.Helper()
	if err := l.writeAll(g.opening(from, to)); err != nil {
		g.t.Fatal(err)
	}
	grid := g.engines[from].grids[0]
	for _, p := range g.plan.Pieces {
		first, last := grid.FramesOf(p.Range)
		for f := first; f < last && p.Owner == peerName(to); f++ {
			if err := l.writeFrame(kindRaw, f, grid.Frame(g.own[from].data, f)); err != nil {
				g.t.Fatal(err)
			}
		}
	}
}

// aliveOnly opens streams to owners that read everything and answer only that they are alive.
type aliveOnly struct{}

func (aliveOnly) Open(context.Context, slot.PeerID) (wire.Stream, error) {
	done := make(chan struct{})
	return &aliveStream{script{aliveReader{done, new(bytes.Buffer)}}, sync.OnceFunc(func() { close(done) })}, nil
}

type aliveStream struct {
	script
	end func()
}

func (s *aliveStream) Reset() error { s.end(); return nil }

type aliveReader struct {
	done chan struct{}
	b    *bytes.Buffer
}

func (a aliveReader) Read(b []byte) (int, error) {
	if a.b.Len() == 0 {
		select {
		case <-time.After(time.Second / 4):
			a.b.Write(appendAlive(nil, 0))
		case <-a.done:
			return 0, wiretest.ErrReset
		}
	}
	return a.b.Read(b)
}

// A contributor stays within the window while another keeps the owner waiting, so that an owner's
// memory is bounded.
func TestWindowIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, testParams(60_000, 100), 3, rand.New(rand.NewPCG(9, 9)))
		g.net.size = 1 << 20 // a transport that would take more
		g.net.silent = peerName(2)
		g.start(0)
		g.start(1)
		synctest.Wait()
		_, received := g.running[0].Traffic()
		most := len(g.opening(1, 0)) + g.running[0].schedule.(*rotation).window*(400+headerSize)
		if int(received) != most {
			t.Errorf("%d bytes received, want a window: %d", received, most)
		}
		g.close()
	})
}
