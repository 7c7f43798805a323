package replica

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// A disk that takes nothing any more ends the node, so that the others need not wait for it in
// every slot. So does an initial state that cannot be made.
func TestWhichFailuresEndTheNode(t *testing.T) {
	var fatal error
	reported := false
	cfg := Config{Kept: kept, Fatal: func(err error) { fatal = err }}
	r := &Replica{log: slog.New(slog.DiscardHandler), cfg: cfg}
	try := func(err error) {
		fatal, reported = nil, false
		r.failed(t.Context(), membership.WorkHold{}, err, func(membership.Report) { reported = true })
	}
	noMemory := errors.New("no memory on the device")
	for _, err := range []error{
		fmt.Errorf("checkpoint: cannot write: %w", syscall.ENOSPC),
		fmt.Errorf("initial parameters: %w", Permanent(noMemory)),
	} {
		if try(err); fatal == nil || fatal.Error() != err.Error() || reported {
			t.Errorf("%v: fatal %v, reported as a failure that may pass: %v", err, fatal, reported)
		}
	}
	if try(Permanent(noMemory)); !errors.Is(fatal, noMemory) {
		t.Errorf("fatal: %v", fatal)
	}
	if try(errors.New("nobody has it")); fatal != nil || !reported {
		t.Errorf("a passing failure: fatal %v, reported %v", fatal, reported)
	}
}

// A fault of a file that may pass ends the node at the third time in a row, if that is no moment
// later. Meanwhile the node names it.
func TestFaultsThatRepeatEndTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fatal error
		cfg := Config{Kept: kept, Fatal: func(err error) { fatal = err }}
		r := &Replica{log: slog.New(slog.DiscardHandler), cfg: cfg}
		fails := func(err error) bool {
			r.failed(t.Context(), membership.WorkHold{}, err, func(membership.Report) {})
			return fatal != nil
		}
		rights := &fs.PathError{Op: "open", Path: "/p/state/tmp-1", Err: syscall.EACCES}
		for range 10 {
			if fails(rights) {
				t.Fatalf("at once: %v", fatal)
			}
		}
		if r.Fault() != error(rights) {
			t.Errorf("the fault is %v", r.Fault())
		}
		time.Sleep(faultTime)
		r.faults.clear()
		if r.Fault() != nil || fails(rights) || fails(rights) {
			t.Errorf("the fault was over: %v, %v", r.Fault(), fatal)
		}
		time.Sleep(faultTime)
		if fails(errors.New("nobody has it")) {
			t.Error("ended by what no file has to do with")
		}
		if !fails(rights) || fatal != error(rights) {
			t.Errorf("the third in a row: %v", fatal)
		}
	})
}

// The power goes at each operation of holding an outcome: what was reported as held is on the disk
// after it.
func TestHeldIsOnDisk(t *testing.T) {
	cfg := checkpoint.Config{Shape: checkpoint.Shape{Elements: 1}, FrameBytes: 64}
	open := func(f *powerfs.FS) *checkpoint.Store {
		cfg.FS = f
		store, err := checkpoint.Open("/state", cfg)
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	draft := slot.Draft{Ref: slot.Ref{Height: 1}, Kind: slot.Step, Slot: 1}
	onDisk, reports := 0, 0
	for at := range 20 {
		f := powerfs.New()
		m := &model{store: open(f)}
		r := &Replica{
			log: slog.New(slog.DiscardHandler), model: m,
			cfg:      Config{Fatal: func(error) {}, Kept: kept},
			outcomes: &outcomes{model: m, reductions: &reductions{}},
		}
		f.CutAt(f.Ops()+at, powerfs.Before)
		reported := false
		r.Do(t.Context(), membership.WorkHold{Draft: draft}, func(report membership.Report) {
			_, held := report.(membership.ReportHeld)
			reported = reported || held
		})
		r.jobs.wait()
		is := open(f.Reboot(0)).HasOutcome(1, draft.Outcome())
		if reported && !is {
			t.Errorf("cut at operation %d: held, and it is lost", at)
		}
		if reported {
			reports++
		}
		if is {
			onDisk++
		}
	}
	if reports == 0 || onDisk == 20 {
		t.Errorf("reported %d times and held %d times of 20", reports, onDisk)
	}
}
