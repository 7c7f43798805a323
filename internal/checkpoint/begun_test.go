package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// sevenFrames is an outcome of two segments, and its frames.
func sevenFrames(fill byte) (gs []slot.Segment, data, frames []slot.Frames) {
	all := bytes.Repeat([]byte{fill}, 7*testFrame-100)
	for _, at := range [][]int{{0, 3 * testFrame}, {3 * testFrame, len(all)}} {
		d := slot.Cut(all[at[0]:at[1]], testFrame)
		data = append(data, d)
		gs = append(gs, slot.Segment{
			Range: slot.Range{Begin: uint64(at[0]), End: uint64(at[1])}, Contributors: slot.Bitmap{1},
			Root: d.Root(testFrame),
		})
	}
	for b := range slices.Chunk(all, testFrame) {
		frames = append(frames, slot.Cut(b, testFrame))
	}
	return gs, data, frames
}

func beginOutcome(t *testing.T, s *Store, height uint64, frames []slot.Frames) *Begun {
	t.Helper()
	b, err := s.BeginOutcome(height)
	noError(t, err)
	for f, frame := range frames {
		noError(t, b.Write(f, frame))
	}
	noError(t, b.Sync())
	return b
}

// What was written ahead stays where it has the hash that is agreed, and else is written again.
func TestOutcomesThatWereBegun(t *testing.T) {
	gs, data, frames := sevenFrames(1)
	_, _, others := sevenFrames(2)
	for _, c := range []struct {
		name    string
		written []slot.Frames
		corrupt bool
	}{
		{"all", frames, false},
		{"some", frames[:2], false},
		{"one that changed", slices.Concat(frames[:2], others[2:3], frames[3:]), false},
		{"others, and a longer last one", slices.Concat(others, others[:2]), false},
		{
			"bytes without their hash, which shows that they are not written again",
			slices.Concat(frames[:2], []slot.Frames{{Bytes: others[2].Bytes, Hashes: frames[2].Hashes}}), true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s, _ := testStore(t, dir)
			b := beginOutcome(t, s, 3, c.written)
			noError(t, s.PutOutcome(3, gs, data))
			if err := b.Write(0, frames[0]); !errors.Is(err, os.ErrClosed) {
				t.Errorf("what was put is still written: %v", err)
			}
			s, _ = testStore(t, dir)
			o, err := s.Outcome(3, slot.OutcomeRoot(gs))
			noError(t, err)
			for i := range gs {
				got, err := o.Read(i)
				if bad := i == 0 && c.corrupt; bad != errors.As(err, new(*CorruptError)) ||
					!bad && !bytes.Equal(got, data[i].Bytes) {
					t.Fatalf("segment %d: %v", i, err)
				}
				if c.corrupt {
					return
				}
			}
		})
	}
}

// One file is begun at a time. It goes on as that of the next height where nothing was agreed, and
// no outcome of another height takes it. It is gone when the store is closed.
func TestOneOutcomeIsBegunAtATime(t *testing.T) {
	gs, data, frames := sevenFrames(1)
	dir := t.TempDir()
	s, _ := testStore(t, dir)
	old := beginOutcome(t, s, 3, frames[:4])
	beginOutcome(t, s, 4, frames[4:])
	if err := old.Write(0, frames[0]); !errors.Is(err, os.ErrClosed) {
		t.Errorf("two write one file: %v", err)
	}
	b := beginOutcome(t, s, 4, nil)
	if !b.Has(0, frames[4].Hashes[0]) || b.Has(3, frames[3].Hashes[0]) {
		t.Error("a frame of another height counts, or one of this height does not")
	}
	noError(t, s.PutOutcome(2, gs, data))
	if noError(t, b.Write(6, frames[6])); len(files(t, dir)) != 2 {
		t.Errorf("files %v", files(t, dir))
	}
	if noError(t, s.Close()); len(files(t, dir)) != 1 {
		t.Errorf("files %v", files(t, dir))
	}
}

// A disk that is full while frames are written ahead says so when the outcome is put, as if none
// had been. The spare files are gone then.
func TestFullDiskWhileAnOutcomeIsBegun(t *testing.T) {
	gs, data, frames := sevenFrames(1)
	var says []string
	for _, ahead := range []bool{false, true} {
		f := powerfs.New()
		s, err := Open("/state", Config{Shape: testShape, FrameBytes: testFrame, FS: f})
		noError(t, err)
		put(t, s, 1, 1)
		put(t, s, 2, 2)
		other := map[uint64]slot.Root{1: {9}, 2: {9}}
		noError(t, s.Prune(Policy{Keep: 1, State: known(nil), Outcome: known(other)}))
		f.Plan(func(op powerfs.Op) (fault powerfs.Fault) {
			if op.Kind == powerfs.Write {
				fault.Err = syscall.ENOSPC
			}
			return fault
		})
		if ahead {
			b, err := s.BeginOutcome(3)
			noError(t, err)
			if err := b.Write(0, frames[0]); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("writing ahead: %v", err)
			}
		}
		err = s.PutOutcome(3, gs, data)
		if left, _ := f.ReadDir("/state"); !errors.Is(err, syscall.ENOSPC) || len(left) > 0 {
			t.Errorf("ahead %v: %v, files %v", ahead, err, left)
		}
		before, rest, _ := strings.Cut(err.Error(), "tmp-")
		_, after, _ := strings.Cut(rest, ": ")
		says = append(says, before+after)
	}
	if says[0] != says[1] {
		t.Errorf("%q\n%q", says[0], says[1])
	}
}

// Somebody removes the folder while an outcome is written ahead: it is put all the same.
func TestBegunOutcomeInAFolderThatIsRemoved(t *testing.T) {
	gs, data, frames := sevenFrames(1)
	dir := t.TempDir() + "/state"
	s, _ := testStore(t, dir)
	beginOutcome(t, s, 3, frames)
	noError(t, os.RemoveAll(dir))
	noError(t, s.PutOutcome(3, gs, data))
	if s, _ = testStore(t, dir); !s.HasOutcome(3, slot.OutcomeRoot(gs)) {
		t.Error("not held")
	}
}
