package checkpoint

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

const tortureDir = "/books/state"

var tortureConfig = Config{Shape: Shape{Elements: 300, Optimizer: 1}, FrameBytes: 256}

// victim is a peer's states and outcomes over all its processes, and which of them must be there.
type victim struct {
	t        *testing.T
	where    string
	disk     *powerfs.Disk
	log      bytes.Buffer
	states   map[uint64]bool // true: acknowledged and needed; false: may be there
	outcomes map[uint64]bool
	ahead    error // of the first frame that could not be written ahead
}

// Fatalf says what the log says, too.
func (v *victim) Fatalf(format string, args ...any) {
	v.t.Helper()
	v.t.Fatalf("%s: %s\n%s", v.where, fmt.Sprintf(format, args...), v.log.String())
}

// stateAt is the state after a height, which is also its slot.
func stateAt(height uint64) (Checkpoint, [][]float32) {
	rng, vs := rand.New(rand.NewPCG(height, 2)), [][]float32{make([]float32, 300), make([]float32, 300)}
	for _, v := range vs {
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
	}
	root := StateRoot(Count{Slot: height}, vs...)
	return Checkpoint{Height: height, Slot: height, Root: root, Size: tortureConfig.Shape.Size()},
		vs
}

func outcomeAt(height uint64) ([]slot.Segment, []slot.Frames) {
	f := slot.Cut(bytes.Repeat([]byte{byte(height + 1)}, 700), 256)
	s := slot.Segment{Range: slot.Range{End: 700}, Contributors: slot.Bitmap{3}, Root: f.Root(256)}
	return []slot.Segment{s}, []slot.Frames{f}
}

func (v *victim) save(s *Store, height uint64) error {
	v.states[height] = v.states[height] || false
	c, vs := stateAt(height)
	err := s.Save(height, Count{Slot: height}, c.Root, vs...)
	v.states[height] = v.states[height] || err == nil
	return err
}

// begin writes frames of an outcome ahead, one of which will be another one. What fails is no end.
func (v *victim) begin(s *Store, height uint64) error {
	_, data := outcomeAt(height)
	b, err := s.BeginOutcome(height)
	for f := 0; f < 3 && err == nil; f++ {
		frame := slot.Cut(data[0].Bytes[256*f:min(256*(f+1), 700)], 256)
		if f == int(height%4) {
			frame = slot.Cut(bytes.Repeat([]byte{200}, 256), 256)
		}
		if err = b.Write(f, frame); err == nil && f == 1 {
			err = b.Sync()
		}
	}
	v.ahead = cmp.Or(v.ahead, err)
	return nil
}

func (v *victim) put(s *Store, height uint64) error {
	v.outcomes[height] = v.outcomes[height] || false
	gs, data := outcomeAt(height)
	err := s.PutOutcome(height, gs, data)
	v.outcomes[height] = v.outcomes[height] || err == nil
	return err
}

// fetch takes a state in that comes in pieces.
func (v *victim) fetch(s *Store, height uint64) error {
	v.states[height] = v.states[height] || false
	c, vs := stateAt(height)
	p, err := s.Create(c)
	if err != nil {
		return err
	}
	b := bytes.Join(encoding(Count{Slot: height}, vs), nil)
	for _, off := range []int{1000, 0} {
		if _, err := p.WriteAt(b[off:min(off+1500, len(b))], int64(off)); err != nil {
			return err
		}
	}
	_, err = p.Adopt()
	v.states[height] = v.states[height] || err == nil
	return err
}

// prune lets go of what is not needed once the records up to certified+1 are.
func (v *victim) prune(s *Store, certified uint64) error {
	var kept []uint64
	for h, there := range v.states {
		if there && h <= certified {
			kept = append(kept, h)
		}
	}
	slices.Sort(kept)
	kept = kept[max(0, len(kept)-2):]
	for h := range v.states {
		v.states[h] = v.states[h] && h >= kept[0]
	}
	for h := range v.outcomes {
		v.outcomes[h] = v.outcomes[h] && h > kept[0]
	}
	return s.Prune(Policy{
		Keep: 2,
		State: func(h uint64) (slot.Root, bool) {
			c, _ := stateAt(h)
			return c.Root, h <= certified
		},
		Outcome: func(h uint64) (slot.Root, bool) {
			gs, _ := outcomeAt(h)
			return slot.OutcomeRoot(gs), h <= certified
		},
	})
}

// open opens the store as the next process: nothing that is needed is missing, nothing torn. What
// it finds it may tell others it has (HAVE), so from then on that is needed, too.
func (v *victim) open() (*Store, error) {
	cfg := tortureConfig
	cfg.FS, cfg.Logger = v.disk, slog.New(slog.NewTextHandler(&v.log, nil))
	s, err := Open(tortureDir, cfg)
	if err != nil {
		return nil, err
	}
	for h, needed := range v.states {
		c, vs := stateAt(h)
		switch held := s.states.holds(c); {
		case needed && !held:
			v.Fatalf("the state after %d is lost", h)
		case held:
			v.states[h] = true
			if err := s.Load(c, vs...); err != nil {
				v.Fatalf("%v", err)
			}
		}
	}
	for h, needed := range v.outcomes {
		gs, data := outcomeAt(h)
		o, err := s.Outcome(h, slot.OutcomeRoot(gs))
		switch {
		case needed && err != nil:
			v.Fatalf("the outcome of %d is lost", h)
		case err == nil:
			v.outcomes[h] = true
			if b, err := o.Read(0); err != nil || !bytes.Equal(b, data[0].Bytes) {
				v.Fatalf("the outcome of %d: %v", h, err)
			}
		}
	}
	if strings.Contains(v.log.String(), "corrupt") {
		v.Fatalf("a file is torn")
	}
	entries, err := v.disk.ReadDir(tortureDir)
	if n := len(s.List()) + len(s.outcomes.all()); err != nil || len(entries) != n {
		v.Fatalf("%d files for %d states and outcomes: %v", len(entries), n, err)
	}
	return s, nil
}

// Live is a peer's life: founding, slots with a checkpoint now and then, a restart, a state that is
// fetched. Most outcomes are written ahead. It ends with the first error of anything else.
func (v *victim) Live() error {
	s, err := v.open()
	if err != nil {
		return err
	}
	steps := []func() error{func() error { return v.save(s, 0) }}
	for h := uint64(1); h < 7; h++ {
		if h != 3 {
			steps = append(steps, func() error { return v.begin(s, h) })
		}
		steps = append(steps, func() error { return v.put(s, h) })
		if h%2 == 0 {
			steps = append(steps, func() error { return v.save(s, h) }, func() error { return v.prune(s, h-1) })
		}
	}
	steps = append(steps, func() error { return v.begin(s, 7) },
		func() (err error) { s, err = v.open(); return err }, func() error { return v.put(s, 7) },
		func() error { return v.fetch(s, 9) }, func() error { return v.prune(s, 9) },
		func() error { return v.begin(s, 9) }, func() error { return v.begin(s, 10) },
		func() error { return v.put(s, 10) })
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return v.ahead
}

// Next opens what is left and works with it.
func (v *victim) Next() error {
	v.t.Helper()
	s, err := v.open()
	if err != nil {
		return err
	}
	if err := errors.Join(v.put(s, 11), v.save(s, 11), v.prune(s, 11)); err != nil {
		return err
	}
	newest, err := s.LoadNewest(nil, make([]float32, 300), make([]float32, 300))
	if err != nil || newest.Height != 11 {
		v.Fatalf("the newest state is %+v, %v", newest, err)
	}
	return nil
}

// lives makes a plan for lives of victims.
func lives(t *testing.T, seeds uint64) powerfs.Plan {
	return powerfs.Plan{Seeds: seeds, Start: func(how string, d *powerfs.Disk) powerfs.Victim {
		return &victim{t: t, where: how, disk: d, states: map[uint64]bool{}, outcomes: map[uint64]bool{}}
	}}
}

func TestPowerCutAtEveryOperation(t *testing.T) { lives(t, 6).Run() }

// Whatever a process finds it may promise to others, though the one before it died before syncing:
// it must survive the next cut.
func TestKillThenPowerCut(t *testing.T) {
	for _, again := range []int{0, 6} { // 6 is just after the store was opened
		p := lives(t, 4)
		p.Kill, p.Again = true, again
		p.Run()
	}
}

// Each operation fails once, of a full disk or a failing one. The caller is told; what was there
// stays; the next process goes on.
func TestFailingDiskAtEveryOperation(t *testing.T) {
	p := lives(t, 6)
	p.Kill, p.Errs = true, []error{syscall.ENOSPC, syscall.EIO}
	p.Run()
}
