package p2pdiloco

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/gossip"
	"github.com/p2pdiloco/p2pdiloco/internal/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Values of Spec.Access.
const (
	AccessOpen    = "open"
	AccessPrivate = "private"
)

// Files of the data directory.
const (
	secretFile = "admission.secret" // of a private run: the one in force, then older ones, newest first
	nextFile   = "admission.next"   // secrets that a record may put in force
	usedFile   = "admission.used"   // tokens that were used, until they expire
)

// privateGossip is the gossipsub protocol of all private runs: strangers must not see who is in the same one.
const privateGossip = "/p2pdiloco/gossip/1.0.0"

// openAdmission finds out how this peer is admitted, if the run is private, and to whom it talks at all. It comes before the network. known is the
// spec in the data directory, if there is one.
func (n *Node) openAdmission(known *Spec) error {
	ring, kept, err := n.findSecrets()
	if err != nil {
		return err
	}
	token := n.cfg.token()
	if ring.IsZero() && token == nil && n.cfg.Spec.Access != AccessPrivate {
		return nil
	}
	if err := n.checkAdmission(known, ring, token); err != nil {
		return err
	}
	made := ring.IsZero() && token == nil
	if made {
		secret, err := admission.NewSecret(rand.Reader)
		if err != nil {
			return err
		}
		ring = admission.NewRing(secret)
	}
	if !kept && !ring.IsZero() { // all that could speak against it has been looked at
		if err := n.dir.replaceSecrets(secretFile, ring.Line(), nil); err != nil {
			return err
		}
	}
	n.cfg.Spec.Access = AccessPrivate
	n.doorman, err = newDoorman(n.dir, n.cfg, ring, token, made, n.log)
	return err
}

// checkAdmission finds out whether the secrets, if there are any, are of use together with all else that is given and known.
func (n *Node) checkAdmission(known *Spec, ring admission.Ring, token *ticket.Token) error {
	switch {
	case n.cfg.Spec.Access == AccessOpen:
		return &SpecError{Field: "access", Here: AccessOpen, Why: "there is an admission secret, or a ticket of a private run: leave this out"}
	case known != nil && known.Access != AccessPrivate:
		return fmt.Errorf("the run of data directory %s is open: leave out the admission secret or the ticket, remove %s if it is there, or use another directory", n.dir.root, secretFile)
	case known != nil && ring.IsZero() && token == nil:
		return fmt.Errorf("%s is gone: put it back, or ask for a ticket (p2pdiloco invite)", n.dir.path(secretFile))
	case token == nil || ring.IsZero() || slices.ContainsFunc(ring.Line(), func(s admission.Secret) bool { return s.Made(n.cfg.ticket) }):
		return nil
	case known == nil:
		return fmt.Errorf("%w: it is not of the admission secret in %s: leave out the ticket, or use another data directory, without that secret", ErrTicket, n.secretPath())
	}
	n.log.Warn("the ticket is not of this peer's admission secret: the ticket is used where the secret is refused", "file", n.secretPath())
	return nil
}

// secretPath is where the secret comes from.
func (n *Node) secretPath() string { return cmp.Or(n.cfg.AdmissionSecret, n.dir.path(secretFile)) }

// closeGate keeps out, from now on, who is not admitted.
func (n *Node) closeGate() error {
	listed := n.cfg.listed()
	var keeper p2p.Gatekeeper
	switch {
	case n.doorman != nil:
		n.doorman.mu.Lock()
		n.doorman.mu.Self = n.Self()
		n.doorman.mu.Unlock()
		n.doorman.gate = n.net
		if n.doorman.made {
			n.emit("admission.made", map[string]any{"file": n.dir.path(secretFile)})
		}
		keeper = n.doorman
	case listed == nil:
		return nil
	}
	err := n.net.SetGate(keeper, listed)
	n.gated = err == nil
	if n.gated && n.doorman != nil {
		n.net.Handle(p2p.ProtocolKey, n.doorman.serveKey)
	}
	return err
}

// checkAccess refuses a private run's spec where nothing would keep others out.
func (n *Node) checkAccess(spec *Spec) error {
	if spec != nil && spec.Access == AccessPrivate && n.doorman == nil {
		return errors.New("the run is private, and there is no admission secret here: put it back in the data directory, give its file, or ask for a ticket (p2pdiloco invite)")
	}
	return nil
}

// gossipConfig is of the topic that this run's peers gossip in.
func (n *Node) gossipConfig(boot uint64) gossip.Config {
	cfg := gossip.Config{Topic: n.topic(), Boot: boot, Heartbeat: n.timing.heartbeat, Logger: n.log}
	if n.doorman != nil {
		cfg.Protocol = privateGossip
		cfg.Kinds = []uint8{kindAdmission}
		cfg.Deliver = func(_ PeerID, _ uint8, body []byte) { n.doorman.learn(body) }
	}
	return cfg
}

// findSecrets reads the secrets given, and those kept in the data directory, and says whether all of them are kept there. Either may know newer ones than the
// other.
func (n *Node) findSecrets() (ring admission.Ring, kept bool, err error) {
	ring, err = n.dir.loadRing()
	if err != nil || n.cfg.AdmissionSecret == "" {
		return ring, !ring.IsZero(), err
	}
	given, err := readSecrets(disk.OS, n.cfg.AdmissionSecret)
	if err == nil && len(given) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return ring, false, fmt.Errorf("admission secret %s: %w", n.cfg.AdmissionSecret, err)
	}
	joined, same := ring.Join(admission.NewRing(given...))
	if !same {
		return ring, false, fmt.Errorf("%s and %s hold different admission secrets: the data directory is of another run", n.cfg.AdmissionSecret, n.dir.path(secretFile))
	}
	return joined, !ring.IsZero() && slices.Equal(joined.Line(), ring.Line()), nil
}

// saveSecret keeps a secret, for this user's eyes alone.
func (d dataDir) saveSecret(s admission.Secret) error {
	if err := disk.Create(d.fs, d.path(secretFile), []byte(s.Text())); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

// listed says who is on Config.Allow; nil if there is no such list.
func (c Config) listed() func(PeerID) bool {
	if len(c.Allow) == 0 {
		return nil
	}
	return func(p PeerID) bool { return slices.Contains(c.Allow, p) }
}

// sayAgain is after how many ALIVEs a peer says again which tokens have been used: announcements get lost, above all before a newcomer gossips.
const sayAgain = 6

// announceUsed tells the others which tokens have been used, until the node closes: it is one of its goroutines.
func (n *Node) announceUsed() {
	again := time.NewTicker(sayAgain * n.timing.ledger.Alive)
	defer again.Stop()
	for {
		select {
		case <-n.closed.Done():
			return
		case b := <-n.doorman.news:
			n.transport.publish(kindAdmission, b)
		case <-again.C:
			if b := n.doorman.unsaid(); b != nil {
				n.transport.publish(kindAdmission, b)
			}
		}
	}
}

// places are where the run's peers announce themselves: under its name, or of a private run under what only its peers and its tickets know.
func (n *Node) places() *p2p.Places {
	if n.doorman == nil {
		return p2p.NewPlaces(n.cfg.Spec.Name)
	}
	return n.doorman.places
}

// awaitAdmission waits until this peer is let into the run, if that is private. Who was in it before and has lost the secret knows the spec sooner.
func (n *Node) awaitAdmission(ctx context.Context) error {
	if err := n.checkAccess(&n.spec); err != nil || n.doorman == nil {
		return err
	}
	n.doorman.mu.Lock()
	n.doorman.mu.run = n.spec.RunID()
	n.doorman.mu.Unlock()
	if n.doorman.isIn() {
		return nil
	}
	n.emit("run.searching", map[string]any{
		"run":    n.spec.Name,
		"detail": n.dir.path(secretFile) + " is gone: looking for a member that lets this peer in again with its ticket",
	})
	return n.doorman.await(ctx)
}

// topic is where the run's peers gossip. That of a private run is kept from strangers by the gate: its name lasts when the secret is changed.
func (n *Node) topic() string { return "/p2pdiloco/run/" + n.run.String() }
