package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

const tortureDir = "/home/peer/books"

// victim is a peer's log over all its processes, and what was acknowledged to them.
type victim struct {
	t      testing.TB
	where  string
	disk   *powerfs.Disk
	script *ledgerScript
	log    bytes.Buffer
	drawn  byte // incarnations

	opened  bool       // a store was opened: it must come back as the same incarnation
	saved   wire.Saved // acknowledged
	waiting wire.Saved // what it becomes with the Save under way
	inc     map[slot.Incarnation]bool
}

func newVictim(t testing.TB, where string, d *powerfs.Disk) *victim {
	v := &victim{t: t, where: where, disk: d, script: newLedgerScript(), inc: map[slot.Incarnation]bool{}}
	v.saved = newState(run, 0).saved()
	v.waiting = v.saved
	return v
}

// Fatalf says what the log says, too.
func (v *victim) Fatalf(format string, args ...any) {
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
	reached := v.saved.Height // by what was acknowledged
	s, err := openWith(v.disk, tortureDir, run, reached, v, slog.New(slog.NewTextHandler(&v.log, nil)), 2000)
	if err != nil {
		return nil, err
	}
	got := load(v.t, s)
	switch {
	case !v.opened && v.inc[got.Incarnation]:
	case !v.opened:
		v.inc[got.Incarnation] = true
	case !v.inc[got.Incarnation]:
		v.Fatalf("the log is lost: another incarnation")
	case got.Boot <= v.saved.Boot:
		v.Fatalf("boot %d after boot %d", got.Boot, v.saved.Boot)
	}
	v.readAll(s, got)
	inc, boot := got.Incarnation, got.Boot
	got.Incarnation = v.saved.Incarnation
	switch {
	case sameButBoot(got, v.saved):
		v.saved = got
	case sameButBoot(got, v.waiting):
		v.saved = v.waiting
	default:
		v.Fatalf("got  %+v\nwant %+v\nor   %+v", got, v.saved, v.waiting)
	}
	v.opened, v.saved.Boot, v.saved.Incarnation = true, boot, inc
	v.inc = map[slot.Incarnation]bool{inc: true}
	v.waiting = v.saved
	return s, nil
}

// readAll reads the records that the log points at.
func (v *victim) readAll(s *File, got wire.Saved) {
	at := got.Tip
	for h := got.Height; h > 0; h-- {
		c, err := s.Record(h)
		if err != nil || c.Record.Hash() != at {
			v.Fatalf("record %d of %d is %+v, %v", h, got.Height, c, err)
		}
		at = c.Record.Prev
	}
}

// save saves entries and notes whether that was acknowledged.
func (v *victim) save(s *File, entries ...wire.Entry) error {
	state := newState(run, v.saved.Incarnation)
	state.chain, state.offerSeq, state.boot = slices.Clone(s.mu.state.chain), v.saved.OfferSeq, v.saved.Boot
	maps.Copy(state.pledges, s.mu.state.pledges)
	for _, e := range entries {
		if err := state.apply(e); err != nil {
			v.t.Fatal(err)
		}
	}
	v.waiting = state.saved()
	err := s.Save(entries)
	if err == nil {
		v.saved = v.waiting
	}
	return err
}

// Live is a peer's life: processes one after the other, whose logs are compacted now and then. It
// ends with the first error.
func (v *victim) Live() error {
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

// Next opens what is left and saves some more: it must work as if nothing had been.
func (v *victim) Next() error {
	s, err := v.open()
	if err != nil {
		return err
	}
	if err := v.save(s, wire.EntryOffer{Seq: v.saved.OfferSeq + 1}); err != nil {
		return err
	}
	return s.Close()
}

// lives runs a plan, and demands that the log says this at the end of some life.
func lives(t *testing.T, said string, p powerfs.Plan) {
	seen, last := false, (*victim)(nil)
	look := func() { seen = seen || last != nil && strings.Contains(last.log.String(), said) }
	p.Start = func(how string, d *powerfs.Disk) powerfs.Victim {
		look()
		last = newVictim(t, how, d)
		return last
	}
	p.Run()
	if look(); !seen && !testing.Short() { // two seeds may well tear none
		t.Errorf("no log says %q: a part of what this test is for did not happen", said)
	}
}

// The power goes before and after every operation on the disk, and what was not synced survives in
// many ways.
func TestPowerCutAtEveryOperationOfTheLog(t *testing.T) {
	lives(t, "torn end of the ledger log", powerfs.Plan{Seeds: 6})
}

// The process dies at every operation, the kernel lives on, the next process works, and then the
// power goes: what it was told is safe must not rest on anything that the first one left unsynced.
func TestKillThenPowerCutOfTheLog(t *testing.T) {
	lives(t, "compacted the ledger log", powerfs.Plan{Seeds: 6, Kill: true})
}

// The power goes while the log recovers from a power cut, or from the one after a kill.
func TestPowerCutDuringRecoveryOfTheLog(t *testing.T) {
	for again := range 13 {
		for _, kill := range []bool{false, true} {
			lives(t, "", powerfs.Plan{Seeds: 1, Again: 1 + again, Kill: kill})
		}
	}
}

// Each sync and each write fails once: the process is told, stops, and the next one opens what is
// in the kernel's cache. After a power cut all that was acknowledged to either is there: a sync
// that failed is not made good by one that succeeds.
func TestFailingDiskUnderTheLog(t *testing.T) {
	lives(t, "", powerfs.Plan{Seeds: 6, Kill: true, Errs: []error{syscall.EIO, syscall.ENOSPC}})
}

// What was acknowledged and is changed or lost later is never taken for a torn end, as long as
// something was saved after it.
func TestHolesInWhatWasAcknowledged(t *testing.T) {
	b, records, ends, _ := writtenBoth(t)
	for from := headSize; from < ends[len(ends)-2]; from++ {
		for _, size := range []int{1, 7, 60, len(b)} {
			bad := bytes.Clone(b)
			clear(bad[from:min(from+size, ends[len(ends)-2])])
			if _, _, _, err := readBytes(bad); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%d bytes lost at %d: %v", size, from, err)
			}
		}
	}
	if _, err := openBytes(t, t.TempDir(), b, records, io.Discard); err != nil {
		t.Errorf("the sound log: %v", err)
	}
}
