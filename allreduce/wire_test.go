package allreduce

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func testHello() hello {
	return hello{
		Run: testRun, Ref: slot.Ref{Height: 7, Prev: slot.Hash([]byte("prev")), Ballot: 3}, Revision: 2,
		Group: slot.Hash([]byte("group")), Range: slot.Range{Begin: 5, End: 9}, Frames: 9,
	}
}

func TestWireSizes(t *testing.T) {
	if n := len(testHello().Append(nil)); n != helloSize {
		t.Errorf("hello of %d bytes, want %d", n, helloSize)
	}
	if n := len(header{}.Append(nil)); n != headerSize {
		t.Errorf("header of %d bytes, want %d", n, headerSize)
	}
	for name, b := range map[string][]byte{
		"alive": appendAlive(nil, 1<<40), "refuse": appendRefuse(nil, BadBytes), "root": appendRoot(nil, testRun),
	} {
		h, err := parseHeader(b[:headerSize])
		if err != nil || len(b) != headerSize+int(h.Length) {
			t.Errorf("%s: %d bytes, header %v, err %v", name, len(b), h, err)
		}
	}
	if v := parseAlive(appendAlive(nil, 1<<40)[headerSize:]); v != 1<<40 {
		t.Errorf("alive says %d", v)
	}
}

func FuzzHello(f *testing.F) {
	f.Add(testHello().Append(nil))
	f.Add(testHello().Append(nil)[1:])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		switch {
		case err == nil && !bytes.Equal(h.Append(nil), b):
			t.Fatal("what was parsed encodes to other bytes")
		case err != nil && !errors.Is(err, wire.ErrMalformed):
			t.Fatalf("error %v does not wrap wire.ErrMalformed", err)
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add(header{kindRaw, 3, 4096}.Append(nil))
	f.Add(header{kindReduced, 1<<32 - 1, 1<<32 - 1}.Append(nil))
	f.Add(header{kindPackedRaw, 3, 99}.Append(nil))
	f.Add(appendAlive(nil, 4)[:headerSize])
	f.Add(appendRoot(nil, testRun)[:headerSize])
	f.Add(appendRefuse(nil, BadValue)[:headerSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b)
		switch {
		case err == nil && !bytes.Equal(h.Append(nil), b):
			t.Fatal("what was parsed encodes to other bytes")
		case err != nil && !errors.Is(err, wire.ErrMalformed):
			t.Fatalf("error %v does not wrap wire.ErrMalformed", err)
		}
	})
}

// fuzzGroup is a plan of two peers of which only peer 0 runs; peer 1 is played by the fuzzer.
func fuzzGroup(t testing.TB) *group {
	g := newGroup(t, testParams(40, 4), 2, rand.New(rand.NewPCG(9, 9)),
		func(c *Config) { c.Stall, c.PendingWait = time.Hour, 10*time.Millisecond })
	g.net.silent = peerName(1)
	for _, e := range g.engines {
		e.hearsay = 0
	}
	return g
}

// FuzzAccept gives an owner foreign bytes after a good hello and leaves: it names the peer, or
// reduces what was offered.
func FuzzAccept(f *testing.F) {
	g := fuzzGroup(f)
	opening := len(g.opening(1, 0))
	var good []byte
	for i := range 5 {
		b := g.engines[0].grids[0].Frame(g.own[1].data, i)
		good = append(header{kindRaw, uint32(i), uint32(len(b))}.Append(good), b...)
	}
	f.Add(0, good)
	f.Add(0, append(appendAlive(nil, 3), good...))
	f.Add(0, good[:40])
	f.Add(opening-10, good)
	f.Add(0, append(bytes.Clone(good), good...))
	f.Fuzz(func(t *testing.T, cut int, b []byte) {
		g := fuzzGroup(t)
		g.start(0)
		sent := append(g.opening(1, 0)[:max(0, opening-max(0, cut))], b...)
		err := g.accept(1, 0, sent)
		_, reduced := g.running[0].Result(g.plan.Pieces[0].Range)
		lost := g.sinks[0].lost()[peerName(1)]
		if err == nil && lost == 0 && !reduced {
			t.Fatal("neither reduced nor lost nor refused")
		}
		if bytes.Equal(b, good) && cut <= 0 && !reduced {
			t.Fatalf("a good stream was not reduced: %v, %v", err, lost)
		}
		g.close()
	})
}

// reducedPiece is what peer 1 would answer to peer 0 if its own values were the outcome.
func (g *group) reducedPiece() []byte {
	grid := g.engines[0].grids[0]
	first, last := grid.FramesOf(g.plan.Pieces[len(g.plan.Pieces)-1].Range)
	var b []byte
	for i := first; i < last; i++ {
		f := grid.Frame(g.own[1].data, i)
		b = append(header{kindReduced, uint32(i), uint32(len(f))}.Append(b), f...)
	}
	piece := grid.Bytes(g.own[1].data, first, last)
	return appendRoot(b, slot.FrameRoot(slot.FrameHashes(piece, grid.FrameBytes), grid.FrameBytes, uint64(len(piece))))
}

// An owner is named for what it answers.
func TestBadOwnerIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		reason Reason
		change func(b []byte) []byte
	}{
		"another root":   {BadBytes, func(b []byte) []byte { b[len(b)-1]++; return b }},
		"changed frame":  {BadBytes, func(b []byte) []byte { b[headerSize]++; return b }},
		"another index":  {BadBytes, func(b []byte) []byte { b[4]++; return b }},
		"a huge length":  {BadBytes, func(b []byte) []byte { b[5] = 255; return b }},
		"early root":     {BadBytes, func(b []byte) []byte { return b[len(b)-headerSize-32:] }},
		"raw frames":     {BadBytes, func(b []byte) []byte { b[0] = uint8(kindRaw); return b }},
		"an end":         {Connection, func(b []byte) []byte { return b[:len(b)-1] }},
		"a refusal":      {Refused, func([]byte) []byte { return appendRefuse(nil, BadValue) }},
		"nothing at all": {Connection, func([]byte) []byte { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			g := fuzzGroup(t)
			g.engines[0].cfg.Transport = scripted(c.change(g.reducedPiece()))
			g.start(0)
			g.named(0)
			onlyLost(t, "the contributor", g.sinks[0], peerName(1), c.reason)
		})
	}
}

// FuzzReceive gives a contributor foreign bytes from the owner of all: it names the owner, or takes
// a piece whose root is right.
func FuzzReceive(f *testing.F) {
	group := func(t testing.TB) *group {
		g := fuzzGroup(t)
		g.plan.Pieces = []slot.Piece{{Range: slot.Range{End: g.params.Fragments[0]}, Owner: peerName(1)}}
		return g
	}
	g := group(f)
	good := g.reducedPiece()
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(append(appendAlive(nil, 3), good...))
	f.Add(appendRefuse(nil, BadValue))
	f.Add(append(bytes.Clone(good[:len(good)-1]), 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		g := group(t)
		g.engines[0].cfg.Transport = scripted(b)
		g.start(0)
		select {
		case <-g.running[0].Complete():
			if _, complete := g.running[0].Result(g.plan.Pieces[0].Range); !complete {
				t.Fatal("the reduction is complete without its piece")
			}
		case <-g.sinks[0].losses:
			if bytes.Equal(b, good) {
				t.Fatalf("a good stream was refused: %v", g.sinks[0].lost())
			}
		}
		g.close()
	})
}

// scripted is a transport whose peers say what is written here, and read everything.
type scripted []byte

func (s scripted) Open(context.Context, slot.PeerID) (wire.Stream, error) {
	return &script{Reader: bytes.NewReader(s)}, nil
}

type script struct{ io.Reader }

func (*script) Write(b []byte) (int, error)      { return len(b), nil }
func (*script) CloseWrite() error                { return nil }
func (*script) Close() error                     { return nil }
func (*script) Reset() error                     { return nil }
func (*script) SetDeadline(time.Time) error      { return nil }
func (*script) SetReadDeadline(time.Time) error  { return nil }
func (*script) SetWriteDeadline(time.Time) error { return nil }

// A length beyond 31 bits is negative as an int where that has 32: it must not pass for a short one
// there.
func TestLengthsBeyond31Bits(t *testing.T) {
	for _, length := range []uint32{1 << 31, 1<<31 + 1, 1<<32 - 1} {
		if h := (header{kindPackedRaw, 3, length}); h.carries(kindRaw, 3, 400) {
			t.Errorf("a packed frame of %d bytes stands for one of 400", length)
		}
		if h := (header{kindRaw, 3, length}); h.carries(kindRaw, 3, 400) {
			t.Errorf("a frame of %d bytes stands for one of 400", length)
		}
	}
}
