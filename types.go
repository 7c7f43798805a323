package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/node/round"
	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/store"
	"github.com/p2pdiloco/p2pdiloco/spec"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// What a trainer is and is given: see package trainer, which has the interfaces that a Trainer may
// have besides, and is all that one needs to import.
type (
	// Trainer owns the live model and does inner steps.
	Trainer = trainer.Trainer
	// Task is one round of inner steps, or in mode streaming a part of one.
	Task = trainer.Task
	// Progress is how far a run is, in inner steps.
	Progress = trainer.Progress
	// Stats says what a round of inner steps did.
	Stats = trainer.Stats
	// PeerID is a libp2p peer ID in binary form; String prints it as libp2p does.
	PeerID = trainer.PeerID
	// Tensor is one named tensor of the model.
	Tensor = trainer.Tensor
	// Layout is the ordered list of tensors that make up the flat float32 parameter vector.
	Layout = trainer.Layout
	// Root is a BLAKE3-256 hash: of a state, an outcome, a record or a run spec.
	Root = trainer.Root
)

// The run spec: see package spec.
type (
	// Spec is the run spec: what all peers of a run must agree on.
	Spec = spec.Spec
	// SpecError says that a peer's run spec and the fields given here differ, or that a field has a
	// wrong value.
	SpecError = spec.Error
)

// Modes of a run (Spec.Mode).
const (
	ModeSync      = spec.ModeSync      // the trainer waits until its slot is applied
	ModeDelayed   = spec.ModeDelayed   // overlapped: the others' steps come a slot late
	ModeEager     = spec.ModeEager     // delayed, but the peer takes its own part at once
	ModeAsync     = spec.ModeAsync     // eager, and no slot waits for a slow peer
	ModeStreaming = spec.ModeStreaming // the model is reduced fragment after fragment
)

// Values of Spec.Access.
const (
	AccessOpen    = spec.AccessOpen    // everybody may take part
	AccessPrivate = spec.AccessPrivate // peers that were invited, or hold the admission secret
)

// Values of Spec.Trust.
const (
	TrustCrash     = spec.TrustCrash     // members may die: a majority decides
	TrustByzantine = spec.TrustByzantine // fewer than a third of 4 or more may lie, too
)

// Values of this version, as a spec spells them.
const (
	ProtocolVersion = spec.ProtocolVersion // wire and ledger rules
	KernelVersion   = spec.KernelVersion   // arithmetic
)

// Conditions that callers may want to tell apart with errors.Is.
var (
	// ErrOtherRun is wrapped by what Join returns where several runs of the name are in sight and
	// nothing says which one is meant.
	ErrOtherRun = errors.New("p2pdiloco: another run of this name")
	// ErrGivenUp ends a node whose run nobody but its founder ever was in, for another run of the
	// name. Close it, and Join again with the same configuration: that looks for the other run.
	ErrGivenUp = round.ErrGivenUp
	// ErrClosed is returned by calls on a node that was closed. It unwraps to net.ErrClosed.
	ErrClosed = round.ErrClosed
	// ErrCloned ends a node whose identity another process uses at the same time, or whose data
	// directory is an old copy.
	ErrCloned = errors.New("p2pdiloco: the identity is used twice")
	// ErrRemoved ends a node that the members have removed from the run.
	ErrRemoved = errors.New("p2pdiloco: the members have removed this peer from the run")
	// ErrMotion is wrapped by the reasons why Remove, Readmit or RotateSecret cannot be asked for.
	ErrMotion = admission.ErrMotion
	// ErrTicket is wrapped where an invitation (Config.Ticket) cannot be used any more, or is for
	// another run.
	ErrTicket = admission.ErrTicket
	// ErrQuorum is returned by Recover while the members can decide.
	ErrQuorum = errors.New("p2pdiloco: the members can decide by themselves: there is nothing to recover from")
	// ErrTooFew is returned by Recover if members may lie and too few of them are heard to go on
	// without a quorum. What it wraps says which ones are missing.
	ErrTooFew = errors.New("p2pdiloco: too few members are heard to recover with")
	// ErrRunEnded is returned by Anchor, Sync and Finish when the run's last slot has been applied.
	ErrRunEnded = round.ErrRunEnded
	// ErrMissed is returned where the run has ended, its final model is not here, and no peer that
	// holds it has been heard for long.
	ErrMissed = round.ErrMissed
	// ErrLength is returned where a vector of the caller has another number of elements than the
	// run's model.
	ErrLength = round.ErrLength
	// ErrNoAnchor is returned by Begin and Sync before there was an anchor: there is nothing yet
	// that params could have grown from.
	ErrNoAnchor = round.ErrNoAnchor
	// ErrRoundOpen is returned by Anchor, Begin and Sync between Begin and Finish.
	ErrRoundOpen = round.ErrRoundOpen
	// ErrNoRound is returned by Finish for a round that is finished already.
	ErrNoRound = round.ErrNoRound
	// ErrNotFinite is returned when a pseudo-gradient holds a NaN, an infinity, or a value of 2^100
	// (about 1.3e30) or more in magnitude: such a contribution is never offered.
	ErrNotFinite = trainer.ErrNotFinite
	// ErrAnew is returned by a Trainer whose live model is gone. Of a Returner, the node waits
	// until it is back.
	ErrAnew = trainer.ErrAnew
)

// TrainerError says in which of its calls a Trainer failed. The run goes on without this peer:
// Leave it.
type TrainerError = trainer.Error

// ExportConfig says which state Export writes, and where.
type ExportConfig struct {
	DataDir string       // of a peer, which may be running
	Out     string       // the .safetensors file to make, in float32
	Slot    *uint64      // nil: the newest that is on disk
	Force   bool         // replace Out, and write a model that has NaN or infinity, too
	Logger  *slog.Logger // silent when nil
}

// Exported says what was written.
type Exported struct {
	Run       string `json:"run"`
	RunID     Root   `json:"run_id"`
	Slot      uint64 `json:"slot"`
	Height    uint64 `json:"height"`
	StateRoot Root   `json:"state_root"`
	// a record names the state root. If not, the records that led to the state are certified, but
	// none follows yet
	Certified bool `json:"certified"`
	// slot of the checkpoint that it came from; outcomes led from there to Slot
	Restored uint64 `json:"checkpoint"`
	Elements uint64 `json:"parameters"`
	Tensors  int    `json:"tensors"`
}

// Export writes a peer's model to a .safetensors file: the newest checkpoint that a record
// certifies, brought up to the wanted slot by the outcomes that follow it on disk,
// each state held against its certified root. It changes nothing in the data directory.
func Export(ctx context.Context, cfg ExportConfig) (Exported, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := cfg.check(); err != nil {
		return Exported{}, fmt.Errorf("export: %w", err)
	}
	// a running node may remove a checkpoint between its being found and read; a newer one is there
	// then
	const tries = 3
	for try := 1; ; try++ {
		of, a, err := openArchive(ctx, cfg)
		if err == nil {
			err = a.Advance(ctx)
		}
		switch {
		case err == nil:
			return cfg.write(ctx, of, a)
		case !errors.Is(err, checkpoint.ErrNotHeld) || try == tries:
			return Exported{}, fmt.Errorf("export: %w", err)
		}
	}
}

// check refuses what cannot be written before anything is read.
func (cfg ExportConfig) check() error {
	if _, err := os.Stat(cfg.Out); err == nil && !cfg.Force {
		return fmt.Errorf("%s exists: choose another name, or replace it with --force (ExportConfig.Force)", cfg.Out)
	}
	dir := filepath.Dir(filepath.Clean(cfg.Out))
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("there is no folder %s for %s: make it, or choose another name", dir, cfg.Out)
	}
	return nil
}

// openArchive opens the states of a data directory without a node, for as long as ctx lasts.
func openArchive(ctx context.Context, cfg ExportConfig) (of Spec, a *replica.Archive, err error) {
	dir := datadir.At(disk.OS, cfg.DataDir)
	known, err := dir.LoadSpec(Spec{})
	switch {
	case err != nil:
		return of, nil, err
	case known == nil:
		return of, nil, fmt.Errorf("%s holds no run.spec: name the data directory of a peer that has found its run "+
			"(--data-dir)", cfg.DataDir)
	}
	of = *known
	saved, err := store.Read(cfg.DataDir, of.RunID())
	if errors.Is(err, fs.ErrNotExist) {
		return of, nil, fmt.Errorf("%s holds no ledger.log: without it nobody knows which states were agreed; "+
			"export from another peer's directory", cfg.DataDir)
	}
	if err != nil {
		return of, nil, err
	}
	states := dir.Path(datadir.StateFolder)
	if _, err := os.Stat(states); err != nil {
		return of, nil, fmt.Errorf("%s holds no checkpoint yet: a peer makes its first when it founds or joins the "+
			"run; try again then", dir.Root)
	}
	run := replica.RunOf(of, of.RunID())
	a, err = replica.OpenArchive(disk.FSUntil(ctx, disk.OS), run, states, saved, cfg.Slot, cfg.Logger)
	return of, a, err
}

// write writes the state of an archive to the file that cfg names.
func (cfg ExportConfig) write(ctx context.Context, of Spec, a *replica.Archive) (done Exported, err error) {
	err = a.Read(func(at replica.Position, certified bool, vectors [][]float32) error {
		done = Exported{
			Run: of.Name, RunID: of.RunID(), Slot: at.Slot, Height: at.Height, StateRoot: at.Root,
			Certified: certified, Restored: a.Restored(), Elements: of.Layout.Elements(), Tensors: len(of.Layout),
		}
		if err := slot.NotFinite(of.Layout, vectors[0]); err != nil {
			if !cfg.Force {
				return fmt.Errorf("the model of slot %d is bad: %w; nothing is written, unless --force is given "+
					"(ExportConfig.Force)", at.Slot, err)
			}
			cfg.Logger.Warn("the model that is written is bad", "slot", at.Slot, "err", err)
		}
		return disk.WriteWhole(ctx, cfg.Out, cfg.Force,
			func(w io.Writer) error { return safetensors.Write(w, done.metadata(), of.Layout, vectors[0]) })
	})
	if err != nil {
		return Exported{}, fmt.Errorf("export: %w", err)
	}
	return done, nil
}

// metadata is what the file says of itself. "format" is what Python's loaders look for: tensors lie
// as PyTorch's do.
func (e Exported) metadata() map[string]string {
	return map[string]string{
		"format": "pt", "run": e.Run, "run_id": e.RunID.String(), "slot": strconv.FormatUint(e.Slot, 10),
		"state_root": e.StateRoot.String(),
		"certified":  strconv.FormatBool(e.Certified),
	}
}
