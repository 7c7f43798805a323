package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/admission"
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
	listed, credentials := n.cfg.listed(), n.credentials
	if credentials == nil && listed == nil {
		return nil
	}
	var keeper p2p.Gatekeeper
	if credentials != nil {
		n.guard, err = admission.NewGuard(admission.Config{
			Self: n.Self(), Run: n.cfg.Spec.Name, Network: n.net, Files: n.files(), Credentials: credentials,
			Listed: listed, Asking: refusalsWait * n.first.Discovery, Refused: n.tellRefusal, Now: n.hooks.Now,
			Logger: n.cfg.Logger,
		})
		if err != nil {
			return err
		}
		keeper = n.guard
		if credentials.Made {
			n.emit("admission.made", map[string]any{"file": n.dir.Path(admission.SecretFile)})
		}
	}
	err = n.net.SetGate(keeper, listed)
	n.gated = err == nil
	if n.gated && n.guard != nil {
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
