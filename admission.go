package p2pdiloco

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
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
	secretFile = "admission.secret" // of a private run
	usedFile   = "admission.used"   // tokens that were used, until they expire
)

// privateGossip is the gossipsub protocol of all private runs: strangers must not see who is in the same one.
const privateGossip = "/p2pdiloco/gossip/1.0.0"

// maxSecretFile bounds what is read of a file with a secret, in bytes.
const maxSecretFile = 1 << 10

// openAdmission finds out how this peer is admitted, if the run is private, and to whom it talks at all. It comes before the network. known is the
// spec in the data directory, if there is one.
func (n *Node) openAdmission(known *Spec) error {
	secret, kept, err := n.findSecret()
	if err != nil {
		return err
	}
	token := n.cfg.token()
	if secret.IsZero() && token == nil && n.cfg.Spec.Access != AccessPrivate {
		return nil
	}
	if err := n.checkAdmission(known, secret, token); err != nil {
		return err
	}
	made := secret.IsZero() && token == nil
	if made {
		if secret, err = admission.NewSecret(rand.Reader); err != nil {
			return err
		}
	}
	if !kept && !secret.IsZero() { // all that could speak against it has been looked at
		if err := n.dir.saveSecret(secret); err != nil {
			return err
		}
	}
	n.cfg.Spec.Access = AccessPrivate
	n.doorman, err = newDoorman(n.dir, n.cfg, secret, token, made, n.log)
	return err
}

// checkAdmission finds out whether the secret, if there is one, is of use together with all else that is given and known.
func (n *Node) checkAdmission(known *Spec, secret admission.Secret, token *ticket.Token) error {
	switch {
	case n.cfg.Spec.Access == AccessOpen:
		return &SpecError{Field: "access", Here: AccessOpen, Why: "there is an admission secret, or a ticket of a private run: leave this out"}
	case known != nil && known.Access != AccessPrivate:
		return fmt.Errorf("the run of data directory %s is open: leave out the admission secret or the ticket, remove %s if it is there, or use another directory", n.dir.root, secretFile)
	case known != nil && secret.IsZero() && token == nil:
		return fmt.Errorf("%s is gone: put it back, or ask for a ticket (p2pdiloco invite)", n.dir.path(secretFile))
	case token == nil || secret.IsZero() || secret.Made(n.cfg.ticket):
		return nil
	case known == nil:
		return fmt.Errorf("%w: it is not of the admission secret in %s: leave out the ticket, or use another data directory, without that secret", ErrTicket, n.secretPath())
	}
	n.log.Warn("the ticket is not of this peer's admission secret: the secret is used, and not the ticket", "file", n.secretPath())
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
		if n.doorman.made {
			n.emit("admission.made", map[string]any{"file": n.dir.path(secretFile)})
		}
		keeper = n.doorman
	case listed == nil:
		return nil
	}
	err := n.net.SetGate(keeper, listed)
	n.gated = err == nil
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

// findSecret reads the secret given, or the one kept in the data directory, and says whether it is kept there.
func (n *Node) findSecret() (secret admission.Secret, kept bool, err error) {
	secret, err = readSecret(n.dir.fs, n.dir.path(secretFile))
	if kept = !secret.IsZero(); err != nil || n.cfg.AdmissionSecret == "" {
		return secret, kept, err
	}
	given, err := readSecret(disk.OS, n.cfg.AdmissionSecret)
	if err == nil && given.IsZero() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return secret, kept, fmt.Errorf("admission secret %s: %w", n.cfg.AdmissionSecret, err)
	}
	if kept && given != secret {
		return secret, kept, fmt.Errorf("%s and %s hold different admission secrets: the data directory is of another run", n.cfg.AdmissionSecret, n.dir.path(secretFile))
	}
	return given, kept, nil
}

// readSecret is the secret in a file, none if there is no file.
func readSecret(fsys disk.FS, path string) (admission.Secret, error) {
	b, err := disk.Read(fsys, path, maxSecretFile)
	if errors.Is(err, fs.ErrNotExist) {
		return admission.Secret{}, nil
	}
	if err != nil {
		return admission.Secret{}, err
	}
	secret, err := admission.ParseSecret(string(b))
	if err != nil {
		return secret, fmt.Errorf("%s: %w", path, err)
	}
	return secret, nil
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

// rendezvous is what the run's peers announce themselves under: its name, or of a private run what only its peers and its tickets know.
func (n *Node) rendezvous() string {
	if n.doorman == nil {
		return n.cfg.Spec.Name
	}
	n.doorman.mu.Lock()
	defer n.doorman.mu.Unlock()
	var r [ticket.RendezvousSize]byte
	if d := &n.doorman.mu; d.Secret.IsZero() {
		r = d.Token.Rendezvous
	} else {
		r = d.Secret.Rendezvous(d.Run)
	}
	return "private/" + hex.EncodeToString(r[:])
}

// awaitAdmission waits until this peer is let into the run, if that is private. Who was in it before and has lost the secret knows the spec sooner,
// but the topic's name comes from the secret.
func (n *Node) awaitAdmission(ctx context.Context) error {
	if err := n.checkAccess(&n.spec); err != nil || n.doorman == nil || n.doorman.isIn() {
		return err
	}
	n.emit("run.searching", map[string]any{
		"run":    n.spec.Name,
		"detail": n.dir.path(secretFile) + " is gone: looking for a member that lets this peer in again with its ticket",
	})
	return n.doorman.await(ctx)
}

// topic is where the run's peers gossip; awaitAdmission comes first.
func (n *Node) topic() string {
	if n.doorman == nil {
		return "/p2pdiloco/run/" + n.run.String()
	}
	return n.doorman.secret().Topic(n.spec.Name, n.run)
}
