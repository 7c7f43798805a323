package p2pdiloco

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/gossip"
	"github.com/p2pdiloco/p2pdiloco/internal/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
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

// maxSecretFile bounds what is read of a file with a secret, in bytes.
const maxSecretFile = 1 << 10

// openAdmission finds out how this peer is admitted, if the run is private, and to whom it talks at all. It comes before the network.
func (n *Node) openAdmission() error {
	secret, made, err := n.findSecret()
	if err != nil {
		return err
	}
	var token *ticket.Token
	if n.cfg.ticket != nil {
		token = n.cfg.ticket.Token
	}
	if secret.IsZero() && token == nil {
		return nil
	}
	if n.cfg.Spec.Access == AccessOpen {
		return &SpecError{Field: "access", Here: AccessOpen, Why: "there is an admission secret, or a ticket of a private run: leave this out"}
	}
	n.cfg.Spec.Access = AccessPrivate
	n.doorman, err = newDoorman(n.dir, n.cfg, secret, token, made, n.log)
	return err
}

// closeGate keeps out, from now on, who is not admitted.
func (n *Node) closeGate() error {
	listed := n.cfg.listed()
	switch {
	case n.doorman != nil:
		n.doorman.mu.Lock()
		n.doorman.mu.Self = n.Self()
		n.doorman.mu.Unlock()
		if n.doorman.made {
			n.emit("admission.made", map[string]any{"file": n.dir.path(secretFile)})
		}
		return n.net.SetGate(n.doorman, listed)
	case listed != nil:
		return n.net.SetGate(nil, listed)
	}
	return nil
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
		cfg.Kinds = []uint8{kindAdmission}
		cfg.Deliver = func(_ PeerID, _ uint8, body []byte) { n.doorman.learn(body) }
	}
	return cfg
}

// findSecret reads the secret given, or the one kept in the data directory, or makes one for a run that is to be private.
func (n *Node) findSecret() (secret admission.Secret, made bool, err error) {
	kept, err := readSecret(n.dir.fs, n.dir.path(secretFile))
	if err != nil {
		return secret, false, err
	}
	secret = kept
	if n.cfg.AdmissionSecret != "" {
		if secret, err = readSecret(disk.OS, n.cfg.AdmissionSecret); err == nil && secret.IsZero() {
			err = fs.ErrNotExist
		}
		if err != nil {
			return secret, false, fmt.Errorf("admission secret %s: %w", n.cfg.AdmissionSecret, err)
		}
		if !kept.IsZero() && kept != secret {
			return secret, false, fmt.Errorf("%s and %s hold different admission secrets: the data directory is of another run", n.cfg.AdmissionSecret, n.dir.path(secretFile))
		}
	}
	if secret.IsZero() && n.cfg.Spec.Access == AccessPrivate && n.cfg.ticket == nil {
		if n.dir.has(specFile) {
			return secret, false, fmt.Errorf("%s is gone: put it back, or ask for a ticket (p2pdiloco invite)", n.dir.path(secretFile))
		}
		made = true
		if secret, err = admission.NewSecret(rand.Reader); err != nil {
			return secret, false, err
		}
	}
	if !secret.IsZero() && kept.IsZero() {
		err = n.dir.saveSecret(secret)
	}
	return secret, made, err
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

// announceUsed tells the others which tokens have been used here, until the node closes: it is one of its goroutines.
func (n *Node) announceUsed() {
	for {
		select {
		case <-n.closed.Done():
			return
		case b := <-n.doorman.news:
			n.transport.publish(kindAdmission, b)
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
