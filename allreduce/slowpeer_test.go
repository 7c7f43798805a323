package allreduce

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// dripping is a contributor's stream that passes so many bytes and from then on one byte at a time:
// always alive, never done.
type dripping struct {
	wire.Stream
	after *int
	each  time.Duration
}

func (d dripping) Write(b []byte) (int, error) {
	if *d.after > 0 {
		n, err := d.Stream.Write(b[:min(len(b), *d.after)])
		*d.after -= n
		return n, err
	}
	time.Sleep(d.each)
	return d.Stream.Write(b[:1])
}

// contributing applies bad to the streams that a peer opens as a contributor, told by what it
// writes first.
type contributing struct {
	wire.Stream
	bad   wire.Stream
	told  *bool
	opens *bool
}

func (c contributing) Write(b []byte) (int, error) {
	if !*c.told {
		*c.told, *c.opens = true, len(b) >= helloSize && binary.BigEndian.Uint32(b) == helloMagic
	}
	if *c.opens {
		return c.bad.Write(b)
	}
	return c.Stream.Write(b)
}

// drip has some peers drip, in what they contribute, after so many bytes on each stream.
func (g *group) drip(after int, each time.Duration, peers ...int) {
	g.net.wrap = func(local, _ slot.PeerID, s wire.Stream) wire.Stream {
		if !slices.ContainsFunc(peers, func(i int) bool { return local == peerName(i) }) {
			return s
		}
		left := after
		return contributing{s, dripping{s, &left, each}, new(bool), new(bool)}
	}
}

// Peers that send a byte now and then show life without end. Owners go on without them after a few
// stall limits: what came before counts, the others' results are whole, and nobody else is named.
func TestWhoDripsIsLeftOut(t *testing.T) {
	const stall = 10 * time.Second
	for name, after := range map[string]int{
		"in the opening": helloSize + 10, "midway": helloSize + 50*32 + 6*409 + 100,
		"between frames": helloSize + 50*32 + 4*409,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroup(t, testParams(5000, 100), 5, rand.New(rand.NewPCG(11, 1)),
					func(c *Config) { c.Stall = stall })
				g.net.size = 1 << 20
				bad := []int{1, 4}
				g.drip(after, stall*9/10, bad...)
				began := time.Now()
				g.startAll()
				g.running = []*Reduction{g.running[0], g.running[2], g.running[3]}
				g.wait()
				if took := time.Since(began); took > 10*stall {
					t.Errorf("it took %v, with a stall limit of %v", took, stall)
				}
				for _, s := range g.outcome() {
					at := slices.IndexFunc(g.plan.Pieces, func(p slot.Piece) bool { return s.Range.End <= p.Range.End })
					for _, i := range bad {
						own := g.plan.Pieces[at].Owner == peerName(i)
						if late := s.Range.End == g.plan.Pieces[at].Range.End; late && s.Contributors.Has(i) != own {
							t.Errorf("range %v has contributors %v", s.Range, s.Contributors)
						}
					}
				}
				time.Sleep(2 * stall)
				for _, i := range []int{0, 2, 3} {
					if l := g.sinks[i].lost(); len(l) != 2 || l[peerName(1)] != Connection ||
						l[peerName(4)] != Connection {
						t.Errorf("peer %d names %v", i, l)
					}
				}
				g.check()
				g.close()
			})
		})
	}
}

// An owner that learns of the plan late finds the first frames of the others there already, which
// does not make a slow link a bad one.
func TestWhoBeginsLateWaitsForASlowLink(t *testing.T) {
	reduceSlowly(t, 25*time.Millisecond, 750*time.Millisecond, 4*time.Second)
}

// Of two peers nobody can say which is slow; but a link on which so little comes is as good as
// dead.
func TestADripOfTwoIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall = 10 * time.Second
		g := newGroup(t, testParams(2000, 100), 2, rand.New(rand.NewPCG(11, 2)), func(c *Config) { c.Stall = stall })
		g.drip(helloSize+20*32+3*409+100, stall/2, 1)
		g.startAll()
		time.Sleep(11 * stall)
		onlyLost(t, "the owner", g.sinks[0], peerName(1), Connection)
		g.close()
	})
}

// A link ten times slower than the others', through a whole reduction that takes many stall limits,
// is honest: nobody is lost. Nor where all are as slow.
func TestTenTimesSlowerIsNotADrip(t *testing.T) {
	for name, each := range map[string]time.Duration{"one link": 100 * time.Millisecond, "all links": time.Second} {
		t.Run(name, func(t *testing.T) { reduceSlowly(t, each, time.Second, 0) })
	}
}

// reduceSlowly has four peers reduce, of which nobody may be lost. 20 bytes take so long on their
// links, and on that of peer 2; peer 0 begins late.
func reduceSlowly(t *testing.T, each, slowest, late time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		const stall = 8 * time.Second
		g := newGroup(t, testParams(12_000, 100), 4, rand.New(rand.NewPCG(11, 3)), func(c *Config) { c.Stall = stall })
		g.net.size = 1 << 20
		g.apart()
		g.net.wrap = func(local, _ slot.PeerID, s wire.Stream) wire.Stream {
			if local == peerName(2) {
				return slow{s, 20, slowest}
			}
			return slow{s, 20, each}
		}
		began := time.Now()
		g.startAll(0)
		time.Sleep(late)
		g.start(0)
		for _, r := range g.running {
			<-r.Complete()
		}
		if took := time.Since(began); took < 3*outpacedStalls*stall {
			t.Fatalf("it took %v: too short to show anything", took)
		}
		g.check()
		for i, s := range g.sinks {
			if l := s.lost(); len(l) != 0 {
				t.Errorf("peer %d lost %v", i, l)
			}
		}
		g.close()
	})
}
