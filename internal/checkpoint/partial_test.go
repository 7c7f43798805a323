package checkpoint

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// pieces are the ranges in which tests write a partial state.
func pieces(size int64) (list [][2]int64) {
	for off := int64(0); off < size; off += GroupBytes {
		list = append(list, [2]int64{off, min(GroupBytes, size-off)})
	}
	return list
}

func begin(t *testing.T, s *Store, c Checkpoint) *Partial {
	t.Helper()
	p, err := s.Create(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func write(t *testing.T, p *Partial, b []byte, piece [2]int64) {
	t.Helper()
	if _, err := p.WriteAt(b[piece[0]:piece[0]+piece[1]], piece[0]); err != nil {
		t.Fatal(err)
	}
}

// What a fetch that came to no end has fetched is there for the next one of the process, though
// what is not needed is removed meanwhile. It is a state once it is whole.
func TestPartialIsTakenUpAgain(t *testing.T) {
	v := vectors(4)
	b, dir := naive(4, v), t.TempDir()
	c := Checkpoint{Height: 4, Slot: 4, Root: StateRoot(Count{Slot: 4}, v...), Size: testShape.Size()}
	all := pieces(c.Size)
	s, _ := testStore(t, dir)
	own := save(t, s, 1)
	if s.Begun(c) {
		t.Fatal("begun before it was")
	}
	p := begin(t, s, c)
	for _, piece := range []int{3, 1} {
		write(t, p, b, all[piece])
	}
	p.Keep()
	for range 2 { // that it was taken up once changes nothing
		if !s.Begun(c) {
			t.Fatal("not found again")
		}
		p = begin(t, s, c)
		for i, want := range []bool{false, true, false, true} {
			if got := p.Has(all[i][0], all[i][1]); got != want {
				t.Fatalf("has piece %d: %v, want %v", i, got, want)
			}
		}
		if p.Has(all[1][0], all[1][1]*2) || p.Has(0, 0) {
			t.Fatal("has what was never written")
		}
		p.Keep()
	}
	p = begin(t, s, c)
	err := s.Prune(Policy{Keep: 1, State: known(map[uint64]slot.Root{1: own.Root}), Outcome: known(nil)})
	if err != nil || len(s.List()) != 1 {
		t.Fatalf("%v, a partial state is listed: %v", err, s.List())
	}
	write(t, p, b, all[0])
	write(t, p, b, all[2])
	if got, err := p.Adopt(); err != nil || got != c {
		t.Fatalf("adopted %v, %v", got, err)
	}
	noError(t, s.Load(c, blank()...))
	p = begin(t, s, Checkpoint{Height: 5, Slot: 5, Root: c.Root}) // the slot is not the header's
	write(t, p, b, [2]int64{0, c.Size})
	if _, err := p.Adopt(); err == nil {
		t.Fatal("adopted a state of another slot")
	}
	if f := files(t, dir); len(f) != 2 {
		t.Fatalf("files %v", f)
	}
}

// A process that starts finds nothing of a file or a state that another one has begun.
func TestOpenRemovesLeftovers(t *testing.T) {
	dir := t.TempDir()
	s, _ := testStore(t, dir)
	c := Checkpoint{Height: 4, Slot: 4, Root: slot.Root{1}}
	begin(t, s, c).Keep()
	for _, name := range []string{"tmp-123", "notes.txt", "state-1-abc"} {
		noError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	s, _ = testStore(t, dir)
	if f := files(t, dir); s.Begun(c) || !slices.Equal(f, []string{"notes.txt", "state-1-abc"}) ||
		len(s.List()) != 0 {
		t.Errorf("files %v, states %v", f, s.List())
	}
}

// One state is on its way in at a time, and none once this peer has one.
func TestPartialsAreDropped(t *testing.T) {
	dir := t.TempDir()
	s, _ := testStore(t, dir)
	a, b := Checkpoint{Height: 4, Slot: 4, Root: slot.Root{1}}, Checkpoint{Height: 7, Slot: 7, Root: slot.Root{2}}
	begin(t, s, a).Keep()
	p := begin(t, s, b)
	if s.Begun(a) || len(files(t, dir)) != 1 {
		t.Fatalf("files %v", files(t, dir))
	}
	c := save(t, s, 9)
	policy := Policy{State: known(map[uint64]slot.Root{9: c.Root}), Outcome: known(nil)}
	if err := s.Prune(policy); err != nil || len(files(t, dir)) != 2 {
		t.Fatalf("one in use was dropped: %v", err)
	}
	p.Keep()
	if err := s.Prune(policy); err != nil || s.Begun(b) || len(files(t, dir)) != 1 {
		t.Fatalf("%v, files %v", err, files(t, dir))
	}
}

// A file that rots while the tree over it is in memory is found out by the next who would be sent a
// part of it.
func TestRottenFilesAreNotServed(t *testing.T) {
	s, _ := testStore(t, t.TempDir())
	c := save(t, s, 1)
	if _, err := s.AppendSlice(nil, c.Root, 0, GroupBytes); err != nil {
		t.Fatal(err)
	}
	flip(t, s.path(c), GroupBytes+5)
	if _, err := s.AppendSlice(nil, c.Root, 0, GroupBytes); err != nil {
		t.Fatalf("a part that is right: %v", err)
	}
	b, err := s.AppendSlice(nil, c.Root, GroupBytes, GroupBytes)
	wantCorrupt(t, err, s.path(c))
	if len(b) != 0 || len(s.List()) != 0 {
		t.Fatalf("%d bytes, %v", len(b), s.List())
	}

	gs, root := put(t, s, 3, 1)
	r, err := s.Segment(gs[0].Root)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	hashes, err := r.Hashes()
	if err != nil {
		t.Fatal(err)
	}
	path := r.f.Name()
	flip(t, path, r.dataAt()+testFrame+1)
	if _, err := r.Frame(nil, 0, hashes); err != nil {
		t.Fatal(err)
	}
	b, err = r.Frame(nil, 1, hashes)
	wantCorrupt(t, err, path)
	if len(b) != 0 || s.HasOutcome(3, root) {
		t.Fatal("the outcome is still held")
	}
}

// What somebody fetches is spared for a while, and not for ever.
func TestWhatIsFetchedIsSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := testStore(t, t.TempDir())
		roots := map[uint64]slot.Root{}
		for h := uint64(2); h <= 10; h += 2 {
			roots[h] = save(t, s, h).Root
		}
		outcomes := map[uint64]slot.Root{}
		for h := uint64(3); h <= 10; h++ {
			_, outcomes[h] = put(t, s, h, h)
		}
		prune := func(heights uint64, states, kept []uint64) {
			t.Helper()
			err := s.Prune(Policy{
				Keep: 1, Hold: Hold{For: time.Minute, Heights: heights},
				State: known(roots), Outcome: known(outcomes),
			})
			if err != nil {
				t.Fatal(err)
			}
			var got, held []uint64
			for _, c := range s.List() {
				got = append(got, c.Height)
			}
			for h, r := range outcomes {
				if s.HasOutcome(h, r) {
					held = append(held, h)
				}
			}
			slices.Sort(held)
			if !slices.Equal(got, states) || !slices.Equal(held, kept) {
				t.Fatalf("states %v, want %v; outcomes %v, want %v", got, states, held, kept)
			}
		}
		fetch := func(h uint64) {
			t.Helper()
			if _, err := s.AppendSlice(nil, roots[h], 0, GroupBytes); err != nil {
				t.Fatal(err)
			}
		}
		fetch(2)
		fetch(6)
		fetch(8)
		prune(100, []uint64{10, 8, 6}, []uint64{7, 8, 9, 10}) // two at once, the newest
		time.Sleep(50 * time.Second)
		fetch(6)
		time.Sleep(20 * time.Second)
		prune(100, []uint64{10, 6}, []uint64{7, 8, 9, 10})
		gs, _ := segments(9)
		r, err := s.Segment(gs[0].Root)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		prune(3, []uint64{10}, []uint64{9, 10}) // 6 is too far behind
		time.Sleep(2 * time.Minute)
		prune(100, []uint64{10}, nil)
	})
}
