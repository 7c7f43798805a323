package admission

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/admission/proof"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// ErrTicket is wrapped where a ticket cannot be used any more, or is for another run.
var ErrTicket = errors.New("p2pdiloco: the ticket is refused")

// Search says where the credentials of a peer may be.
type Search struct {
	Files  Files
	Secret string         // a file with secrets that was given; may be empty
	Ticket *ticket.Ticket // nil if none was given
	Given  spec.Spec      // the fields of the run's spec that were given
	Known  *spec.Spec     // the spec in the data directory; nil if there is none
	Logger *slog.Logger
}

// Credentials are what a peer of a private run is admitted with.
type Credentials struct {
	Made   bool // the secret is new: this peer is the first of the run
	ring   proof.Ring
	ticket *ticket.Ticket // nil if it has no token
}

// Find returns the credentials of a peer, nil if the run is open. It makes and keeps a first secret
// if the given spec says that the run is private. It keeps nothing that contradicts what else is
// given and known.
func (s Search) Find() (*Credentials, error) {
	ring, kept, err := s.secrets()
	if err != nil {
		return nil, err
	}
	c := &Credentials{ring: ring}
	if s.Ticket != nil && s.Ticket.Token != nil {
		c.ticket = s.Ticket
	}
	if ring.IsZero() && c.ticket == nil && s.Given.Access != spec.AccessPrivate {
		return nil, nil
	}
	if err := s.check(c); err != nil {
		return nil, err
	}
	if c.Made = ring.IsZero() && c.ticket == nil; c.Made {
		secret, err := proof.NewSecret(rand.Reader)
		if err != nil {
			return nil, err
		}
		c.ring = proof.NewRing(secret)
	}
	if !kept && !c.ring.IsZero() {
		if err := s.Files.replaceSecrets(SecretFile, c.ring.Line(), nil); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// secrets reads the secrets given, and those kept in the data directory, and says whether all of
// them are kept there. Either may know newer ones than the other.
func (s Search) secrets() (ring proof.Ring, kept bool, err error) {
	ring, err = s.Files.loadRing()
	if err != nil || s.Secret == "" {
		return ring, !ring.IsZero(), err
	}
	given, err := readSecrets(disk.Read, disk.OS, s.Secret)
	if err == nil && len(given) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return ring, false, fmt.Errorf("admission secret %s: %w", s.Secret, err)
	}
	joined, same := ring.Join(proof.NewRing(given...))
	if !same {
		return ring, false, fmt.Errorf("%s and %s hold different admission secrets: the data directory is of another "+
			"run", s.Secret, s.Files.path(SecretFile))
	}
	return joined, !ring.IsZero() && slices.Equal(joined.Line(), ring.Line()), nil
}

// check says whether the credentials agree with everything else that is given and known.
func (s Search) check(c *Credentials) error {
	private := s.Known != nil && s.Known.Access == spec.AccessPrivate
	source := cmp.Or(s.Secret, s.Files.path(SecretFile)) // where the secret comes from
	switch {
	case s.Given.Access == spec.AccessOpen:
		return &spec.Error{
			Field: "access", Here: spec.AccessOpen,
			Why: "there is an admission secret, or a ticket of a private run: leave this out",
		}
	case s.Known != nil && !private:
		return fmt.Errorf("the run of data directory %s is open: leave out the admission secret or the ticket, "+
			"remove %s if it is there, or use another directory", s.Files.Dir, SecretFile)
	case s.Known != nil && c.ring.IsZero() && c.ticket == nil:
		return fmt.Errorf("%s is gone: put it back, or ask for a ticket (p2pdiloco invite)", s.Files.path(SecretFile))
	case c.ticket == nil || c.ring.IsZero() || slices.ContainsFunc(c.ring.Line(),
		func(secret proof.Secret) bool { return secret.Made(c.ticket) }):
		return nil
	case s.Known == nil:
		return fmt.Errorf("%w: it is not of the admission secret in %s: leave out the ticket, or use another data "+
			"directory, without that secret", ErrTicket, source)
	}
	s.Logger.Warn("the ticket is not of this peer's admission secret: the ticket is used where the secret is refused",
		"file", source)
	return nil
}

// Names of the files.
const (
	// SecretFile holds the secret in force of a private run, then older ones, newest first.
	SecretFile = "admission.secret"
	nextFile   = "admission.next" // secrets that a record may put in force
	usedFile   = "admission.used" // tokens that were used, until they expire
	motionFile = "orders"         // this peer's operator's motions
)

// Files is the data directory of a peer.
type Files struct {
	FS  disk.FS
	Dir string
}

func (f Files) path(name string) string { return filepath.Join(f.Dir, name) }

// createSecret writes a first secret to a file that only this user can read.
func (f Files) createSecret(s proof.Secret) error {
	if err := disk.Create(f.FS, f.path(SecretFile), []byte(s.Text())); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

// replaceSecrets writes a file of secrets, unless it holds the same ones already.
func (f Files) replaceSecrets(name string, secrets, before []proof.Secret) error {
	if slices.Equal(secrets, before) {
		return nil
	}
	if err := disk.Replace(f.FS, f.path(name), []byte(proof.Text(secrets))); err != nil {
		return fmt.Errorf("admission secrets: %w", err)
	}
	return nil
}

// loadRing reads the secrets.
func (f Files) loadRing() (proof.Ring, error) {
	line, err := readSecrets(disk.ReadSecret, f.FS, f.path(SecretFile))
	if err != nil {
		return proof.Ring{}, err
	}
	next, err := readSecrets(disk.ReadSecret, f.FS, f.path(nextFile))
	if err != nil {
		return proof.Ring{}, err
	}
	return proof.NewRing(line...).Restore(next), nil
}

// reader is disk.ReadSecret for a peer's own files. A file that the user names may have modes that
// others chose, as a container's secrets do: for it reader is disk.Read.
type reader func(fsys disk.FS, path string, limit int64) ([]byte, error)

// readSecrets returns the secrets in a file, none if there is no file.
func readSecrets(read reader, fsys disk.FS, path string) ([]proof.Secret, error) {
	// A file that is being rewritten may hold more for a moment.
	b, err := read(fsys, path, 2*proof.MaxRingText)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	secrets, err := proof.ParseSecrets(string(b))
	if err == nil && len(secrets) == 0 && filepath.Base(path) != nextFile {
		_, err = proof.ParseSecret("")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return secrets, nil
}

// loadUsed reads the register of used tokens, at a time of day.
func (f Files) loadUsed(now uint64) (*proof.Register, error) {
	used := proof.NewRegister()
	b, err := disk.Read(f.FS, f.path(usedFile), proof.MaxAnswer)
	if errors.Is(err, fs.ErrNotExist) {
		return used, nil
	}
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	told, err := proof.ParseTold(b)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w: remove it; tickets that were used may then be used again",
			f.path(usedFile), err)
	}
	used.Merge(now, told)
	return used, nil
}
