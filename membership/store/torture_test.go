package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// tortureSeeds is how many ways of coming out of a power cut are tried at each place. Nothing here
// has goroutines, so a run under the race detector tries few.
func tortureSeeds(usual uint64) uint64 { return testlevel.Choose(min(usual, 2), usual, 10*usual) }

// vary gives the mixed ways of surviving another seed at each place.
func vary(seed uint64, at int) uint64 {
	if seed < 4 {
		return seed
	}
	return seed + 1000*uint64(at)
}

const tortureDir = "/home/peer/books"

// victim is a peer's log over all its processes, and what was acknowledged to them.
type victim struct {
	t      testing.TB
	where  string
	run    slot.Root
	fs     *powerfs.FS
	script *ledgerScript
	log    bytes.Buffer
	drawn  byte // incarnations

	opened  bool       // a store was opened: it must come back as the same incarnation
	saved   wire.Saved // acknowledged
	waiting wire.Saved // what it becomes with the Save under way
	inc     map[slot.Incarnation]bool
}

func newVictim(t testing.TB, where string) *victim {
	run := testRoot(1)
	v := &victim{
		t: t, where: where, run: run, fs: powerfs.New(), script: newLedgerScript(run),
		inc: map[slot.Incarnation]bool{},
	}
	v.saved = newState(run, 0).saved()
	v.waiting = v.saved
	return v
}

func (v *victim) fatalf(format string, args ...any) {
	v.t.Helper()
	v.t.Fatalf("%s: %s\n%s", v.where, fmt.Sprintf(format, args...), v.log.String())
}

// Read gives random bytes: other ones each time.
func (v *victim) Read(b []byte) (int, error) {
	v.drawn++
	for i := range b {
		b[i] = v.drawn
	}
	return len(b), nil
}

// open opens the log as the next process, and checks that what was acknowledged is there and
// nothing else, save what was under way.
func (v *victim) open() (*File, error) {
	reached := uint64(0) // by what was acknowledged
	if n := len(v.saved.Chain); n > 0 {
		reached = v.saved.Chain[n-1].Record.Height
	}
	s, err := openWith(v.fs, tortureDir, v.run, reached, v, slog.New(slog.NewTextHandler(&v.log, nil)), 2000)
	if err != nil {
		return nil, err
	}
	got := load(v.t, s)
	switch {
	case !v.opened && v.inc[got.Incarnation]:
	case !v.opened:
		v.inc[got.Incarnation] = true
	case !v.inc[got.Incarnation]:
		v.fatalf("the log is lost: another incarnation")
	case got.Boot <= v.saved.Boot:
		v.fatalf("boot %d after boot %d", got.Boot, v.saved.Boot)
	}
	inc, boot := got.Incarnation, got.Boot
	got.Incarnation = v.saved.Incarnation
	switch {
	case sameButBoot(got, v.saved):
		v.saved = got
	case sameButBoot(got, v.waiting):
		v.saved = v.waiting
	default:
		v.fatalf("got  %+v\nwant %+v\nor   %+v", got, v.saved, v.waiting)
	}
	v.opened, v.saved.Boot, v.saved.Incarnation = true, boot, inc
	v.inc = map[slot.Incarnation]bool{inc: true}
	v.waiting = v.saved
	return s, nil
}

// save saves entries and notes whether that was acknowledged.
func (v *victim) save(s *File, entries ...wire.Entry) error {
	state := newState(v.run, v.saved.Incarnation)
	state.chain, state.tip, state.offerSeq, state.boot = v.saved.Chain, s.mu.state.tip, v.saved.OfferSeq, v.saved.Boot
	maps.Copy(state.pledges, s.mu.state.pledges)
	state.grounds, state.past = v.saved.Grounds, v.saved.Past
	if err := state.fold(entries); err != nil {
		v.t.Fatal(err)
	}
	v.waiting = state.saved()
	err := s.Save(entries)
	if err == nil {
		v.saved = v.waiting
	}
	return err
}

// live is a peer's life: processes one after the other, whose logs are compacted now and then. It
// ends with the first error.
func (v *victim) live() error {
	story := v.script.story()
	last := [][]wire.Entry{{v.script.promise(7), v.script.vote(7, 5)}}
	for _, part := range [][][]wire.Entry{story[:3], story[3:8], story[8:], last} {
		s, err := v.open()
		if err != nil {
			return err
		}
		for _, entries := range part {
			if err := v.save(s, entries...); err != nil {
				return err
			}
		}
		for b := range uint32(2) {
			if err := v.save(s, v.script.promise(10+b), v.script.vote(10+b, 6)); err != nil {
				return err
			}
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

// ops is how many operations a life takes.
func ops(t *testing.T) int {
	t.Helper()
	v := newVictim(t, "undisturbed")
	if err := v.live(); err != nil {
		v.fatalf("%v", err)
	}
	if !strings.Contains(v.log.String(), "compacted the ledger log") {
		v.fatalf("the log was never compacted: a part of what this test is for did not happen")
	}
	return v.fs.Ops()
}

// goOn opens what is left and saves some more, twice: it must work as if nothing had been.
func (v *victim) goOn() {
	v.t.Helper()
	for range 2 {
		s, err := v.open()
		if err != nil {
			v.fatalf("it does not open: %v", err)
		}
		if err := v.save(s, wire.EntryOffer{Seq: v.saved.OfferSeq + 1}); err != nil {
			v.fatalf("%v", err)
		}
		if err := s.Close(); err != nil {
			v.fatalf("%v", err)
		}
	}
}

// eachCut does something for a cut before and after each of n operations: after one is before the
// next.
func eachCut(t *testing.T, n int, do func(where string, at int, cut powerfs.Cut)) {
	t.Helper()
	for at := range n {
		do(fmt.Sprintf("cut before operation %d of %d", at, n), at, powerfs.Before)
	}
	do("cut after the last operation", n-1, powerfs.After)
}

// The power goes before and after every operation on the disk, and what was not synced survives in
// many ways.
func TestPowerCutAtEveryOperationOfTheLog(t *testing.T) {
	seeds, torn := tortureSeeds(6), 0
	eachCut(t, ops(t), func(where string, at int, cut powerfs.Cut) {
		for seed := range seeds {
			v := newVictim(t, fmt.Sprintf("%s, seed %d", where, seed))
			v.fs.CutAt(at, cut)
			if err := v.live(); !errors.Is(err, powerfs.ErrPowerCut) {
				v.fatalf("it lives on: %v", err)
			}
			v.fs = v.fs.Reboot(vary(seed, at))
			v.goOn()
			if strings.Contains(v.log.String(), "torn end of the ledger log") &&
				strings.Contains(v.log.String(), filepath.Join(tortureDir, logName)) {
				torn++
			}
		}
	})
	if torn == 0 && !testing.Short() { // two seeds may well tear none
		t.Error("no end was ever torn")
	}
}

// The process dies at every operation, the kernel lives on, the next process works, and then the
// power goes: what it was told is safe must not rest on anything that the first one left unsynced.
func TestKillThenPowerCutOfTheLog(t *testing.T) {
	seeds := tortureSeeds(6)
	eachCut(t, ops(t), func(where string, at int, cut powerfs.Cut) {
		for seed := range seeds {
			v := newVictim(t, fmt.Sprintf("kill, %s, seed %d", where, seed))
			v.fs.CutAt(at, cut)
			_ = v.live()
			v.fs = v.fs.Restart(vary(seed, at))
			v.goOn()
			v.fs = v.fs.Reboot(vary(seed, at))
			v.goOn()
		}
	})
}

// The power goes while the log recovers from a power cut or a kill before.
func TestPowerCutDuringRecoveryOfTheLog(t *testing.T) {
	seeds := tortureSeeds(1)
	for at := range ops(t) { // after one is before the next
		for again := range 13 {
			for seed := range 2 * seeds {
				v := newVictim(t, fmt.Sprintf("cut before operation %d, and before operation %d after, seed %d", at,
					again, seed))
				v.fs.CutAt(at, powerfs.Before)
				_ = v.live()
				if seed%2 == 0 {
					v.fs = v.fs.Reboot(vary(seed+4, at))
				} else {
					v.fs = v.fs.Restart(vary(seed, at))
				}
				v.fs.CutAt(again, powerfs.Before)
				if s, err := v.open(); err == nil {
					_ = v.save(s, wire.EntryOffer{Seq: v.saved.OfferSeq + 1})
				}
				v.fs = v.fs.Reboot(vary(seed+4, 13*at+again))
				v.goOn()
			}
		}
	}
}

// Each sync and each write fails once: the process is told, stops, and the next one opens what is
// in the kernel's cache. After a power cut all that was acknowledged to either is there: a sync
// that failed is not made good by one that succeeds.
func TestFailingDiskUnderTheLog(t *testing.T) {
	seeds := tortureSeeds(6)
	for _, fault := range []error{syscall.EIO, syscall.ENOSPC} {
		for at := range ops(t) {
			for seed := range seeds {
				v := newVictim(t, fmt.Sprintf("%v in operation %d, seed %d", fault, at, seed))
				failed := powerfs.Op{N: -1}
				v.fs.Plan(func(op powerfs.Op) powerfs.Fault {
					if op.N != at {
						return powerfs.Fault{}
					}
					failed = op
					return powerfs.Fault{Err: fault}
				})
				err := v.live()
				if !errors.Is(err, fault) || !disk.Fault(err) {
					v.fatalf("%+v failed, and the process says %v", failed, err)
				}
				v.fs = v.fs.Restart(vary(seed, at))
				v.goOn()
				v.fs = v.fs.Reboot(vary(seed, at))
				v.goOn()
			}
		}
	}
}

// What was acknowledged and is changed or lost later is never taken for a torn end, as long as
// something was saved after it.
func TestHolesInWhatWasAcknowledged(t *testing.T) {
	run := testRoot(1)
	b, ends, _ := written(t, run)
	for from := headSize; from < ends[len(ends)-2]; from++ {
		for _, size := range []int{1, 7, 60, len(b)} {
			bad := bytes.Clone(b)
			clear(bad[from:min(from+size, ends[len(ends)-2])])
			if _, _, _, err := readBytes(bad, run); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%d bytes lost at %d: %v", size, from, err)
			}
		}
	}
	if _, err := openBytes(t, t.TempDir(), b, run, io.Discard); err != nil {
		t.Errorf("the sound log: %v", err)
	}
}
