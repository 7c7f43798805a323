package admission

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/admission/proof"
)

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
	line, err := readSecrets(f.FS, f.path(SecretFile))
	if err != nil {
		return proof.Ring{}, err
	}
	next, err := readSecrets(f.FS, f.path(nextFile))
	if err != nil {
		return proof.Ring{}, err
	}
	return proof.NewRing(line...).Restore(next), nil
}

// readSecrets returns the secrets in a file, none if there is no file.
func readSecrets(fsys disk.FS, path string) ([]proof.Secret, error) {
	// A file that is being rewritten may hold more for a moment.
	b, err := disk.Read(fsys, path, 2*proof.MaxRingText)
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

// loadUsed reads the register of used tokens.
func (f Files) loadUsed() (*proof.Register, error) {
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
	used.Merge(now(), told)
	return used, nil
}
