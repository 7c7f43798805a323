package p2pdiloco

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

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

// maxUnsaid bounds what waits to be told to the others.
const maxUnsaid = 256

// maxSecretFile bounds what is read of a file with a secret, in bytes.
const maxSecretFile = 1 << 10

// doorman is whom this peer of a private run lets in, and how it asks to be let in itself: a p2p.Gatekeeper.
type doorman struct {
	dir     dataDir
	log     *slog.Logger
	refused chan error  // has room for one: a member says that the ticket is no good
	news    chan []byte // tokens used here, for the others; has room for some
	made    bool        // the secret is new: this peer is the first of the run
	mu      struct {
		sync.Mutex
		admission.Doorkeeper
	}
}

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

func newDoorman(dir dataDir, cfg Config, secret admission.Secret, token *ticket.Token, made bool, log *slog.Logger) (*doorman, error) {
	d := &doorman{dir: dir, log: log, made: made, refused: make(chan error, 1), news: make(chan []byte, maxUnsaid)}
	d.mu.Doorkeeper = admission.Doorkeeper{Run: cfg.Spec.Name, Secret: secret, Token: token, Used: admission.NewRegister(), Listed: cfg.listed()}
	if token != nil {
		d.mu.Until = uint64(cfg.ticket.Expires.Unix())
	}
	b, err := disk.Read(dir.fs, dir.path(usedFile), admission.MaxAnswer)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	used, err := admission.ParseUsed(b)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w: remove it; tickets that were used may then be used again", dir.path(usedFile), err)
	}
	d.mu.Used.Merge(now(), used)
	return d, nil
}

func now() uint64 { return uint64(max(time.Now().Unix(), 0)) }

// listed says who is on Config.Allow; nil if there is no such list.
func (c Config) listed() func(PeerID) bool {
	if len(c.Allow) == 0 {
		return nil
	}
	return func(p PeerID) bool { return slices.Contains(c.Allow, p) }
}

// Ask implements p2p.Gatekeeper.
func (d *doorman) Ask(to PeerID) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.Ask(to).Append(nil)
}

// Answer implements p2p.Gatekeeper.
func (d *doorman) Answer(from PeerID, b []byte) (answer []byte, admitted bool) {
	ask, err := admission.ParseAsk(b)
	if err != nil {
		return admission.Answer{Refusal: "not understood"}.Append(nil), false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.mu.Answer(now(), from, ask)
	if admitted = a.Refusal == ""; admitted && ask.Token {
		d.log.Info("a ticket admits a peer", "peer", from, "token", hex.EncodeToString(ask.ID[:4]))
		d.saveUsed()
		select {
		case d.news <- admission.AppendUsed(nil, []admission.Used{{ID: ask.ID, Expires: ask.Expires, Peers: []PeerID{from}}}):
		default: // who joins hears of it in the answer to its own asking
		}
	}
	return a.Append(nil), admitted
}

// Judge implements p2p.Gatekeeper.
func (d *doorman) Judge(from PeerID, asked, b []byte) error {
	ask, err := admission.ParseAsk(asked)
	if err != nil {
		return err
	}
	answer, err := admission.ParseAnswer(b)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	had := !d.mu.Secret.IsZero()
	err = d.mu.Judge(now(), from, ask, answer)
	var refused *admission.RefusedError
	if errors.As(err, &refused) && refused.Proven && ask.Token && !had {
		select {
		case d.refused <- fmt.Errorf("%w: %s", ErrTicket, refused.Reason):
		default:
		}
	}
	if err == nil && !had {
		err = d.dir.saveSecret(d.mu.Secret)
	}
	return err
}

// learn takes in what another peer has said of tokens.
func (d *doorman) learn(b []byte) {
	used, err := admission.ParseUsed(b)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.Used.Merge(now(), used) {
		d.saveUsed()
	}
}

// saveUsed writes the register; mu is held, which keeps the order. A disk that fails lets tickets be used more often, and is not the end.
func (d *doorman) saveUsed() {
	if err := disk.Replace(d.dir.fs, d.dir.path(usedFile), d.mu.Used.Append(nil)); err != nil && !errors.Is(err, os.ErrClosed) {
		d.log.Warn("who used a ticket could not be noted", "err", err)
	}
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

// secret is what this peer was given or has been told.
func (d *doorman) secret() admission.Secret {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.Secret
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

// topic is where the run's peers gossip.
func (n *Node) topic() string {
	if n.doorman == nil {
		return "/p2pdiloco/run/" + n.run.String()
	}
	return n.doorman.secret().Topic(n.spec.Name, n.run)
}

// newToken makes what admits newcomers with a ticket.
func (d *doorman) newToken(expires time.Time, uses int) (*ticket.Token, error) {
	t := &ticket.Token{Uses: uint32(max(uses, 1))}
	if _, err := rand.Read(t.ID[:]); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t.Tag = d.mu.Secret.Tag(d.mu.Run, t.ID, uint64(expires.Unix()), t.Uses)
	t.Rendezvous = d.mu.Secret.Rendezvous(d.mu.Run)
	return t, nil
}
