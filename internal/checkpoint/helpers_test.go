package checkpoint

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func init() { testutil.OneCPU() }

var testShape = Shape{Elements: 100_003, Optimizer: 1} // 4 groups, the last one short

const testFrame = 4096

func testStore(t *testing.T, dir string) (*Store, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	s, err := Open(dir, Config{
		Shape: testShape, FrameBytes: testFrame,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, &log
}

func vectors(seed uint64) [][]float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	vs := make([][]float32, 1+testShape.Optimizer)
	for k := range vs {
		vs[k] = make([]float32, testShape.Elements)
		for i := range vs[k] {
			vs[k][i] = r.Float32()
		}
	}
	return vs
}

func blank() [][]float32 {
	return [][]float32{make([]float32, testShape.Elements), make([]float32, testShape.Elements)}
}

// save saves the state that belongs to a height: its slot and seed are the height.
func save(t *testing.T, s *Store, height uint64) Checkpoint {
	t.Helper()
	v := vectors(height)
	c := Checkpoint{Height: height, Slot: height, Root: StateRoot(Count{Slot: height}, v...), Size: testShape.Size()}
	noError(t, s.Save(height, Count{Slot: height}, c.Root, v...))
	return c
}

// segments makes an outcome of three segments.
func segments(seed uint64) ([]slot.Segment, []slot.Frames) {
	r := rand.NewChaCha8([32]byte{byte(seed)})
	var gs []slot.Segment
	var data []slot.Frames
	at := uint64(0)
	for _, n := range []int{10_000, 4096, 1} {
		b := make([]byte, n)
		_, _ = r.Read(b)
		data = append(data, slot.Cut(b, testFrame))
		gs = append(gs, slot.Segment{
			Range: slot.Range{Begin: at, End: at + uint64(n)}, Contributors: slot.Bitmap{3},
			Root: data[len(data)-1].Root(testFrame),
		})
		at += uint64(n)
	}
	return gs, data
}

// put puts the outcome of that seed, and returns its segments and root.
func put(t *testing.T, s *Store, height, seed uint64) ([]slot.Segment, slot.Root) {
	t.Helper()
	gs, data := segments(seed)
	noError(t, s.PutOutcome(height, gs, data))
	return gs, slot.OutcomeRoot(gs)
}

// known certifies these roots.
func known(roots map[uint64]slot.Root) func(uint64) (slot.Root, bool) {
	return func(h uint64) (slot.Root, bool) { r, ok := roots[h]; return r, ok }
}

// files lists a directory.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// flip changes one byte of a file; off counts from the end if negative.
func flip(t *testing.T, path string, off int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if off < 0 {
		off += int64(len(b))
	}
	b[off] ^= 1
	noError(t, os.WriteFile(path, b, 0o600))
}

func wantCorrupt(t *testing.T, err error, path string) {
	t.Helper()
	var c *CorruptError
	if !errors.As(err, &c) || c.Path != path {
		t.Fatalf("error %v, want a CorruptError for %s", err, path)
	}
	if _, err := os.Stat(path + corruptSuffix); err != nil {
		t.Fatalf("the file was not set aside: %v", err)
	}
}

func wantIn(t *testing.T, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Fatalf("%q does not say %q", text, part)
	}
}

func (s *Store) path(c Checkpoint) string { return s.folder.path(c.name()) }

// hasSegment says whether some outcome held has a segment with this root.
func hasSegment(s *Store, root slot.Root) bool {
	r, err := s.Segment(root)
	if err == nil {
		_ = r.Close()
	}
	return err == nil
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
