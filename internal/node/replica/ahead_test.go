package replica

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

type nobody struct{}

func (nobody) Open(context.Context, slot.PeerID) (canonical.Stream, error) { return nil, io.EOF }

// alone is a replica that reduces by itself, on a disk. lie changes the values of each frame.
func alone(t *testing.T, codec string, fs disk.FS, lie func(frame int, values []float32)) *Replica {
	const elements = 5*512 + 77
	run := Run{
		Outer: outeropt.Config{Name: outeropt.SGD, LR: 1},
		Params: allreduce.Params{
			Fragments: []uint64{elements}, FrameElements: 512, Aggregator: allreduce.Mean, Codec: codec,
			Schedule: allreduce.Rotation, MinPeers: 1, Discount: []uint32{1000},
		},
		Fragments: []slot.Fragment{{Ranges: []slot.Range{{End: elements}}}},
	}
	m, err := openModel(run, "/state", "", checkpoint.Config{FS: fs},
		func(uint64) (none wire.Commit, ok bool) { return none, false })
	if err != nil {
		t.Fatal(err)
	}
	engine, err := allreduce.New(allreduce.Config{
		Self: "self", Params: run.Params, Transport: nobody{},
		Reduced: func(_ uint64, frame int, values []float32) { lie(frame, values) },
	})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	r := &Replica{cfg: Config{Kept: kept, Fatal: func(error) {}, Run: run}, log: log, model: m, engine: engine}
	r.reductions = &reductions{
		engine: engine, params: run.Params, relayed: func() map[slot.PeerID]bool { return nil }, log: log,
	}
	r.outcomes = &outcomes{self: "self", model: m, reductions: r.reductions, stall: time.Second}
	if r.contributions, err = newContributions("self", run); err != nil {
		t.Fatal(err)
	}
	return r
}

// reduce has a replica reduce its own contribution in a slot, and returns the draft of the outcome.
func (r *Replica) reduce(t *testing.T) slot.Draft {
	v := make(allreduce.Vector, r.cfg.Run.elements())
	for i := range v {
		v[i] = float32(i % 1000)
	}
	own, err := r.contributions.encode(0, 0, v)
	if err != nil {
		t.Fatal(err)
	}
	r.contributions.hold(own)
	plan := slot.Plan{
		Ref: slot.Ref{Height: 1}, Slot: 1,
		Offers: []slot.Offer{{Peer: "self", Slot: 1, Weight: 1, Root: own.Encoded.Root()}},
		Pieces: []slot.Piece{{Range: slot.Range{End: uint64(len(v))}, Owner: "self"}},
	}
	draft := slot.Draft{Ref: plan.Ref, Kind: slot.Step, Slot: 1, Contributions: plan.Offers}
	r.Do(t.Context(), membership.WorkReduce{Plan: plan}, func(report membership.Report) {
		if done, ok := report.(membership.ReportSegment); ok {
			draft.Segments = append(draft.Segments, done.Segment)
		}
	})
	synctest.Wait()
	return draft
}

// The frames of an outcome are in a file before there is a draft of it, and that file is the
// outcome's once it is held. A fault of the disk meanwhile is no fault of this peer.
func TestOutcomeIsWrittenAhead(t *testing.T) {
	for _, c := range []struct {
		codec string
		fails bool
	}{{"f32", false}, {"int8", false}, {"f32", true}} {
		synctest.Test(t, func(t *testing.T) {
			fs := powerfs.New()
			r := alone(t, c.codec, fs, func(int, []float32) {})
			fs.Plan(func(op powerfs.Op) (fault powerfs.Fault) {
				if c.fails && op.Kind == powerfs.Write {
					fault.Err = errors.New("a fault that passes")
				}
				return fault
			})
			draft := r.reduce(t)
			fs.Plan(func(powerfs.Op) (none powerfs.Fault) { return none })
			running, _ := r.reductions.running()
			outcome, done := running.Hold([]slot.Range{{End: r.cfg.Run.elements()}})
			want := outcome[0].Bytes
			done()
			files, err := fs.ReadDir("/state")
			if want == nil || err != nil || (len(files) == 1) == c.fails {
				t.Fatalf("%+v: reduced %v; files %v, %v", c, want != nil, files, err)
			}
			for _, file := range files {
				f, err := disk.Read(fs, "/state/"+file.Name(), 1<<20)
				if err != nil || !strings.HasPrefix(file.Name(), "tmp-") || !bytes.Equal(f, want) {
					t.Errorf("%+v: %s has not the outcome before its draft: %v", c, file.Name(), err)
				}
			}
			held := false
			r.Do(t.Context(), membership.WorkHold{Draft: draft}, func(report membership.Report) {
				_, ok := report.(membership.ReportHeld)
				held = held || ok
			})
			synctest.Wait()
			o, err := r.model.store.Outcome(1, draft.Outcome())
			if !held || err != nil {
				t.Fatalf("%+v: held %v: %v", c, held, err)
			}
			if b, err := o.Read(0); err != nil || !bytes.Equal(b, want) {
				t.Errorf("%+v: another outcome is held: %v", c, err)
			}
			if files, _ = fs.ReadDir("/state"); len(files) != 1 {
				t.Errorf("%+v: files %v", c, files)
			}
			_ = r.engine.Close()
			r.jobs.wait()
		})
	}
}

// What an owner makes of a frame that nobody can apply is not held, as if nothing had been written
// ahead.
func TestUnreadableFramesAreNotWrittenAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := alone(t, "f32", powerfs.New(), func(frame int, values []float32) {
			if frame == 2 {
				values[7] = float32(math.NaN())
			}
		})
		draft := r.reduce(t)
		var failed membership.ReportFailed
		r.Do(t.Context(), membership.WorkHold{Draft: draft}, func(report membership.Report) {
			failed, _ = report.(membership.ReportFailed)
		})
		synctest.Wait()
		begun := r.model.store.BegunOutcome(1)
		running, _ := r.reductions.running()
		all, done := running.Hold([]slot.Range{{End: r.cfg.Run.elements()}})
		for k, hash := range all[0].Hashes {
			if begun.Has(k, hash) != (k != 2) {
				t.Errorf("frame %d is written ahead: %v", k, k == 2)
			}
		}
		done()
		if len(failed.Missing) != 1 || failed.Missing[0] != draft.Segments[0].Range {
			t.Errorf("held, or failed otherwise: %+v", failed)
		}
		_ = r.engine.Close()
		r.jobs.wait()
	})
}

// Where the data directory is gone nothing is written: a folder that is made again would stand for
// what this peer has promised.
func TestNothingIsWrittenAheadWithoutTheDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := powerfs.New()
		r := alone(t, "f32", fs, func(int, []float32) {})
		r.cfg.Kept = func() error { return errors.New("its ledger.log is gone") }
		r.reduce(t)
		if files, err := fs.ReadDir("/state"); err != nil || len(files) > 0 {
			t.Errorf("files %v, %v", files, err)
		}
		_ = r.engine.Close()
		r.jobs.wait()
	})
}
