package p2pdiloco

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/node/formation"
	"github.com/p2pdiloco/p2pdiloco/internal/node/modelfile"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/node/round"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

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

// giveUp ends this node, which is alone in its run, for another run in sight.
func (n *Node) giveUp(run formation.Sighted) {
	n.life.Fail(fmt.Errorf("%w: nobody has joined %s@%.16s, which it founded, and in sight is\n  %s", ErrGivenUp,
		n.spec.Name, n.run, run))
}

// forgetLoss removes the note that the ledger was lost: there is a chain again.
func (n *Node) forgetLoss() error {
	if !n.dir.Has(datadir.LostFile) {
		return nil
	}
	return n.dir.FS.Remove(n.dir.Path(datadir.LostFile))
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
		return modelfile.ReadInitial(n.cfg.InitFile, n.spec.Layout, dst, n.cfg.Logger)
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
