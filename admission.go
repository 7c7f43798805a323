package p2pdiloco

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/node/formation"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/node/round"
	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// refusalsWait is the number of discovery windows for which this peer asks other members after one
// has refused it.
const refusalsWait = 3

// announceAgain is the number of ALIVEs after which a peer announces again which tokens have been
// used.
const announceAgain = 6

// files are those of the data directory that admission works with.
func (o *origin) files() admission.Files {
	return admission.Files{FS: o.hooks.Disk, Dir: o.dir.Root}
}

// findCredentials finds out how this peer is admitted, if the run is private. It comes before the
// network.
func (o *origin) findCredentials() (err error) {
	o.credentials, err = admission.Search{
		Files: o.files(), Secret: o.cfg.AdmissionSecret, Ticket: o.cfg.ticket, Given: o.cfg.Spec, Known: o.known,
		Logger: o.cfg.Logger,
	}.Find()
	if o.credentials != nil {
		o.cfg.Spec.Access = AccessPrivate
	}
	return err
}

// closeGate keeps out, from now on, peers that are not admitted.
func (n *Node) closeGate() (err error) {
	if n.credentials == nil {
		return nil
	}
	n.guard, err = admission.NewGuard(admission.Config{
		Self: n.Self(), Run: n.cfg.Spec.Name, Network: n.net, Files: n.files(), Credentials: n.credentials,
		Asking: refusalsWait * n.first.Discovery, Refused: n.tellRefusal, Now: n.hooks.Now, Logger: n.cfg.Logger,
	})
	if err != nil {
		return err
	}
	if n.credentials.Made {
		n.emit("admission.made", map[string]any{"file": n.dir.Path(admission.SecretFile)})
	}
	if err = n.net.SetGate(n.guard); err == nil {
		n.gated = true
		n.net.Handle(p2p.ProtocolKey, n.guard.ServeKey)
	}
	return err
}

// tellRefusal reports why a member does not let this peer back in. The guard does not wait for it.
func (n *Node) tellRefusal(by PeerID, reason string) {
	n.life.Go(func() { n.emit("admission.refused", map[string]any{"about": by, "detail": reason}) })
}

// checkAccess refuses a private run's spec where nothing would keep others out.
func (n *Node) checkAccess(spec *Spec) error {
	if spec != nil && spec.Access == AccessPrivate && n.guard == nil {
		return errors.New("the run is private, and there is no admission secret here: put it back in the data " +
			"directory, give its file, or ask for a ticket (p2pdiloco invite)")
	}
	return nil
}

// places are where the run's peers announce themselves: those of an open run under its name, those
// of a private run under a key that only its peers and its tickets know.
func (n *Node) places() *p2p.Places {
	if n.guard == nil {
		return p2p.NewPlaces(n.cfg.Spec.Name)
	}
	return n.guard.Places()
}

// awaitAdmission waits until this peer is let into the run, if that is private. A peer that was in
// the run before and has lost the secret knows the spec before it is let in.
func (n *Node) awaitAdmission(ctx context.Context) error {
	if err := n.checkAccess(&n.spec); err != nil || n.guard == nil {
		return err
	}
	n.guard.SetRun(n.spec.RunID())
	if n.guard.IsIn() {
		return nil
	}
	n.emit("run.searching", map[string]any{
		"run": n.spec.Name,
		"detail": n.dir.Path(admission.SecretFile) +
			" is gone: looking for a member that lets this peer in again with its ticket",
	})
	return n.guard.Await(ctx)
}

// fitTicket compares the ticket, or the run's ID, with the data directory. A peer that was in the
// run before may have a ticket that has expired.
func (o *origin) fitTicket() error {
	t, known := o.cfg.ticket, o.known
	switch {
	case t == nil && known != nil && !strings.HasPrefix(known.RunID().String(), o.cfg.RunID):
		return fmt.Errorf("%w: data directory %s is of the run with the ID %.16s, not %s: use another directory",
			ErrOtherRun, o.dir.Root, known.RunID(), o.cfg.RunID)
	case t == nil:
		return nil
	case known == nil && t.Expired(o.hooks.Now()):
		return fmt.Errorf("%w: it expired on %s: ask for a new one (p2pdiloco invite)", ErrTicket,
			t.Expires.Local().Format(time.RFC1123))
	case known != nil && known.RunID() != t.RunID:
		return fmt.Errorf("%w: it is for another run named %q than the data directory %s: use another directory",
			ErrTicket, t.Run, o.dir.Root)
	}
	return nil
}

// searching says what happens while no peer is found that knows the run.
func (n *Node) searching() string {
	if n.cfg.ticket != nil {
		return "looking for the peers that the ticket names, or others of its run; it is not founded here"
	}
	if n.cfg.RunID != "" {
		return "looking for peers of the run with the ID " + n.cfg.RunID + "; it is not founded here"
	}
	if !n.hasModel() {
		return "looking for peers that know the run; " + noModel
	}
	if n.cfg.AtOnce {
		return "founding the run here, as this peer was told to"
	}
	none := "there are none"
	if len(n.cfg.Bootstrap) > 0 && !n.cfg.Found {
		none = "a bootstrap address answers and there are none"
	}
	return fmt.Sprintf("looking for peers that know the run; if %s, it is founded after %v", none, n.foundingWindow())
}

// foundingWindow is how long this peer finds nobody before it founds the run. Where it alone may
// found the run that it settles, it does so at once then (ledgerTiming).
func (n *Node) foundingWindow() time.Duration {
	s := n.cfg.Spec.Settled()
	if n.newcomer && s.Byzantine() && (len(s.Founders) == 0 || formation.OnlyFounder(s, n.Self())) {
		return n.first.Discovery
	}
	return n.first.Discovery + n.first.Ledger.FoundAfter
}

// noModel says why a peer without a model founds no run.
const noModel = "this peer has no trainer and no initial model: it founds nothing, and waits for a peer that does"

// hasModel says whether this peer knows what a run begins with. A layout that was given, and not
// adopted, means zeros.
func (n *Node) hasModel() bool {
	return n.cfg.Trainer != nil || n.cfg.Init != nil || n.cfg.InitFile != "" || len(n.cfg.Spec.Layout) > 0
}

// foundsNothing says why this peer does not found the run, empty if it may. lost: it has lost its
// vote log, and has no chain.
func (n *Node) foundsNothing(lost bool) string {
	switch {
	case lost && !n.cfg.Found:
		return "this peer was in the run before and its ledger.log is gone: it waits for the others and founds " +
			"nothing, unless it is told to (found)"
	case !n.hasModel():
		return noModel
	}
	return ""
}

// giveUp ends this node, whose run nobody has joined, for another run in sight.
func (n *Node) giveUp(run formation.Sighted) {
	n.life.Fail(fmt.Errorf("%w: nobody has joined %s@%.16s, and in sight is\n  %s", ErrGivenUp,
		n.spec.Name, n.run, run))
}

// ledgerTiming is the ledger's timing. A run that only this peer may found can have no other chain
// if its identity is new, so nobody is waited for, nor where it was told to found the run. One that
// has lost its data may have founded it. (Others adopt the spec before that. Where its founder dies
// first they wait, and say so, until it comes back or they are started again.)
func (n *Node) ledgerTiming() membership.Timing {
	t := round.ModeOf(n.spec).Timing(n.timing.Ledger)
	t.Linger = cmp.Or(n.cfg.Linger, t.Linger)
	if n.newcomer && (formation.OnlyFounder(n.spec, n.Self()) || n.cfg.AtOnce) {
		t.FoundAfter = 0
	}
	return t
}

// initial writes the initial parameters of a run founded here, which must be finite: everybody
// who joins would get them.
func (n *Node) initial(ctx context.Context, dst []float32) error {
	if err := n.fill(ctx, dst); err != nil {
		return err
	}
	if err := slot.NotFinite(n.spec.Layout, dst); err != nil && !n.hooks.Unsound {
		return replica.Permanent(fmt.Errorf("%w: no run is founded from such a model", err))
	}
	return nil
}

func (n *Node) fill(ctx context.Context, dst []float32) error {
	switch {
	case n.cfg.InitFile != "":
		return readInitial(n.cfg.InitFile, n.spec.Layout, dst, n.cfg.Logger)
	case n.cfg.Init != nil:
		return n.cfg.Init(dst)
	case n.cfg.Trainer != nil:
		err := n.cfg.Trainer.Init(ctx, dst)
		if err != nil && ctx.Err() == nil {
			err = replica.Permanent(&TrainerError{Call: "init", Err: err})
		}
		return err
	}
	return nil // zeros
}

// fixInitial returns the given spec with the root of the state that a file of initial parameters
// makes, so that all founders must have the same file. The root depends on how many vectors the
// outer optimizer has, so that is settled with it.
func fixInitial(given Spec, path string) (Spec, error) {
	given.Outer = given.Settled().Outer
	root, err := replica.InitialRoot(given.Settled().OuterConfig(), given.Layout.Elements(),
		func(anchor []float32) error {
			return readInitial(path, given.Layout, anchor, slog.New(slog.DiscardHandler))
		})
	if err != nil {
		return given, err
	}
	init := "root:" + root.String()
	if given.Init != "" && given.Init != init {
		return given, &SpecError{
			Field: "init", Here: given.Init,
			Why: fmt.Sprintf("the state that %s makes is %s", path, init),
		}
	}
	given.Init = init
	return given, nil
}

// folderPrefix begins the name of a Hugging Face folder in Python (DiLoCo's init).
const folderPrefix = "hf:"

// insteadOfFolder says what to give to the commands, which know .safetensors files alone, instead
// of a Hugging Face folder.
func insteadOfFolder(folder string) error {
	folder = strings.TrimPrefix(folder, folderPrefix)
	return fmt.Errorf("%[1]s is a folder, and .safetensors files are read here: give --init "+
		"%[1]s/model.safetensors. Where there are several, python3 -m p2pdiloco.hf %[1]s MODEL.safetensors makes "+
		"one of them. A Python script gives init=\"hf:%[1]s\" to p2pdiloco.found()", folder)
}

// readInitial fills dst with the layout's tensors from a .safetensors file, which may have the
// names of a model without its head, or a prefix more. NaN and infinity are refused.
func readInitial(path string, layout Layout, dst []float32, logger *slog.Logger) error {
	file, size, err := openInitial(path)
	if err != nil {
		return fmt.Errorf("initial parameters (--init %s): %w", path, err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	m, err := safetensors.Open(file, size)
	if err != nil {
		return fmt.Errorf("initial parameters (--init %s): %w", path, err)
	}
	if err := m.Match(layout); err != nil {
		return fmt.Errorf("initial parameters: %s does not hold this model (give the trainer the file's sizes, or "+
			"another file):\n%w", path, err)
	}
	if name, there := m.Renamed(layout); name != "" {
		logger.Info("the names of the initial parameters differ by a prefix", "from", path, "tensor", name,
			"is there", there)
	}
	if len(m.LeftOut) > 0 {
		logger.Info("tensors that are no parameters are left out of the run", "from", path, "tensors", m.LeftOut)
	}
	if err := m.Read(dst, layout); err != nil {
		return fmt.Errorf("initial parameters: %s: %w", path, err)
	}
	if err := slot.NotFinite(layout, dst); err != nil {
		return fmt.Errorf("initial parameters: %s: %w: no run is founded from such a model", path, err)
	}
	return nil
}

func openInitial(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if strings.HasPrefix(path, folderPrefix) || err == nil && info.IsDir() {
		return nil, 0, insteadOfFolder(path)
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is no file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	return file, info.Size(), nil
}
