package statesync

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func init() { testutil.OneCPU() }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testShape = checkpoint.Shape{Elements: 400_000, Optimizer: 1} // 3.2 MB: 13 chunks

const testFrame = 64 << 10

var free, slow = ServerConfig{}, ServerConfig{BytesPerSecond: 1 << 20}

// bubble runs a part of a test with a clock of its own.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// pipe is an end of an in-memory stream.
type pipe struct{ net.Conn }

func (p pipe) CloseWrite() error { return nil }
func (p pipe) Reset() error      { return p.Close() }

// serves has what answers a peer's streams.
type serves map[slot.PeerID]func(wire.Stream)

// peers is a network: the servers that answer streams, by peer. An unknown peer cannot be reached.
type peers struct {
	serve serves
	wg    sync.WaitGroup
}

func (n *peers) Open(_ context.Context, p slot.PeerID) (wire.Stream, error) {
	serve := n.serve[p]
	if serve == nil {
		return nil, errors.New("no route to peer")
	}
	here, there := net.Pipe()
	n.wg.Go(func() { serve(&pipe{there}) })
	return &pipe{here}, nil
}

func (n *peers) ids() []slot.PeerID {
	var ids []slot.PeerID
	for p := range n.serve {
		ids = append(ids, p)
	}
	slices.Sort(ids)
	return ids
}

func newStore(t testing.TB, shape checkpoint.Shape) *checkpoint.Store {
	t.Helper()
	return openStore(t, t.TempDir(), shape)
}

func openStore(t testing.TB, dir string, shape checkpoint.Shape) *checkpoint.Store {
	t.Helper()
	s, err := checkpoint.Open(dir, checkpoint.Config{Shape: shape, FrameBytes: testFrame})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func state(shape checkpoint.Shape, seed uint64) [][]float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	vs := make([][]float32, 1+shape.Optimizer)
	for k := range vs {
		vs[k] = make([]float32, shape.Elements)
		for i := range vs[k] {
			vs[k][i] = float32(r.NormFloat64() * .02)
		}
	}
	return vs
}

// put saves the state of a height; slot and seed are the height.
func put(t testing.TB, s *checkpoint.Store, height uint64) Target {
	t.Helper()
	v := state(s.Shape(), height)
	root := checkpoint.StateRoot(checkpoint.Count{Slot: height}, v...)
	if err := s.Save(height, checkpoint.Count{Slot: height}, root, v...); err != nil {
		t.Fatal(err)
	}
	return Target{height, height, root}
}

// keeping is a store with the state of a height.
func keeping(t *testing.T, height uint64) (*checkpoint.Store, Target) {
	t.Helper()
	s := newStore(t, testShape)
	return s, put(t, s, height)
}

// putOutcome keeps an outcome of these segment sizes.
func putOutcome(t testing.TB, s *checkpoint.Store, sizes ...int) (blobs []Blob, data [][]byte) {
	t.Helper()
	r := rand.NewChaCha8([32]byte{1})
	var gs []slot.Segment
	var frames []slot.Frames
	at := uint64(0)
	for _, n := range sizes {
		b := make([]byte, n)
		_, _ = r.Read(b)
		f := slot.Cut(b, testFrame)
		root := f.Root(testFrame)
		gs = append(gs, slot.Segment{Range: slot.Range{Begin: at, End: at + uint64(n)}, Root: root})
		blobs, data = append(blobs, Blob{root, int64(n)}), append(data, b)
		frames = append(frames, f)
		at += uint64(n)
	}
	if err := s.PutOutcome(1, gs, frames); err != nil {
		t.Fatal(err)
	}
	return blobs, data
}

// server makes a server that is closed when the test ends.
func server(t testing.TB, s *checkpoint.Store, cfg ServerConfig) *Server {
	t.Helper()
	v := NewServer(s, cfg)
	t.Cleanup(func() { _ = v.Close() })
	return v
}

// honest serves as it should.
func honest(s *Server) func(wire.Stream) {
	return func(st wire.Stream) { s.Serve("client", st) }
}

// source is an honest server of what a store has.
func source(t testing.TB, s *checkpoint.Store, cfg ServerConfig) func(wire.Stream) {
	return honest(server(t, s, cfg))
}

// tryState fetches one of the targets into a new store, if anybody gives it.
func (n *peers) tryState(t *testing.T, want ...Target) (checkpoint.Checkpoint, Report, error) {
	t.Helper()
	defer n.wg.Wait()
	return NewClient(n, Config{}).FetchState(t.Context(), newStore(t, testShape), want, n.ids, nil)
}

// outcome fetches segments from all.
func (n *peers) outcome(t *testing.T, cfg Config, blobs ...Blob) ([][]byte, Report, error) {
	t.Helper()
	defer n.wg.Wait() // the client has hung up on everybody
	got, report, err := NewClient(n, cfg).FetchOutcome(t.Context(), blobs, testFrame, n.ids())
	var data [][]byte
	for i, f := range got {
		if f.Root(testFrame) != blobs[i].Root {
			t.Errorf("the hashes of segment %d are not its own", i)
		}
		data = append(data, f.Bytes)
	}
	return data, report, err
}

// faulty serves as it should until so many bytes have left on a stream; then fault gets each write.
func faulty(s *Server, after int, fault func(st wire.Stream, b []byte) (int, error)) func(wire.Stream) {
	return func(st wire.Stream) { s.Serve("client", &faultyStream{st, after, fault}) }
}

type faultyStream struct {
	wire.Stream
	left  int
	fault func(st wire.Stream, b []byte) (int, error)
}

func (f *faultyStream) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left >= 0 {
		return f.Stream.Write(b)
	}
	return f.fault(f.Stream, b)
}

// lying changes the last byte.
func lying(st wire.Stream, b []byte) (int, error) {
	b = slices.Clone(b)
	b[len(b)-1] ^= 1
	return st.Write(b)
}

// dying breaks the connection in the middle of a block.
func dying(st wire.Stream, b []byte) (int, error) {
	_, _ = st.Write(b[:len(b)/2])
	_ = st.Reset()
	return 0, net.ErrClosed
}

// stalling keeps the connection and sends no more; it ends when the client gives up.
func stalling(st wire.Stream, _ []byte) (int, error) {
	var b [1]byte
	_, err := st.Read(b[:])
	return 0, err
}

func badOf(r Report, p slot.PeerID) (Bad, bool) {
	for _, b := range r.Bad {
		if b.Peer == p {
			return b, true
		}
	}
	return Bad{}, false
}
