package p2pdiloco

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

// access is what the newest record of a private run says of who may take part.
type access struct {
	key      Root                              // commitment to the secret in force; zero: the one that the run was founded with
	standing func(PeerID) (ever, removed bool) // ever: was a member
}

var errKeyNotHeld = errors.New("the run's new admission secret is not held here")

// candidate is the commitment to a secret of this peer's own making, which a record may put in force: the same one each time until it is proposed. It is
// not on disk before that (keepOwn): each start of the peer would leave one more there. Nobody is given it earlier either: only then is it known from whom it
// is to be kept. So nothing is lost if it goes with the process.
func (d *doorman) candidate() (Root, error) {
	d.keys.Lock()
	defer d.keys.Unlock()
	if d.own.IsZero() {
		secret, err := admission.NewSecret(rand.Reader)
		if err != nil {
			return Root{}, err
		}
		d.own = secret
	}
	return d.own.Commitment(d.runID()), nil
}

// keepOwn has the candidate on disk, if it is the secret of this commitment, which is proposed: the next candidate is another one.
func (d *doorman) keepOwn(key Root) error {
	d.keys.Lock()
	defer d.keys.Unlock()
	if d.own.IsZero() || d.own.Commitment(d.runID()) != key {
		return nil
	}
	if err := d.keep(d.own); err != nil {
		return err
	}
	d.own = admission.Secret{}
	return nil
}

// holds says whether the secret of a commitment is on disk here.
func (d *doorman) holds(key Root) bool {
	_, ok := d.held(key)
	return ok
}

func (d *doorman) held(key Root) (admission.Secret, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.Ring.Find(d.mu.run, key)
}

// follow puts the secret that the newest record names in force, and those out that may be here no more. The error wraps errKeyNotHeld if the secret is not
// held. Then all is as before but for those who were removed: they are put out.
func (d *doorman) follow(a access) error {
	d.keys.Lock()
	defer d.keys.Unlock()
	changed, err := d.enforce(a.key)
	d.mu.Lock()
	d.mu.Standing = a.standing
	if changed {
		clear(d.mu.tries)
		maps.DeleteFunc(d.mu.withheld, func(k Root, _ []PeerID) bool {
			_, held := d.mu.Ring.Find(d.mu.run, k)
			return !held || d.mu.Ring.InForce(d.mu.run, k)
		})
	}
	d.mu.Unlock()
	if changed {
		d.places.Set(d.rendezvous()...)
		d.log.Info("the run has another admission secret now")
	}
	if d.gate != nil {
		d.gate.Expel(func(p PeerID) bool {
			ever, removed := a.standing(p)
			return removed || changed && !ever // who was let in under the secret of before, and did not become a member
		})
	}
	return err
}

// enforce makes the secret of a commitment the current one, on disk first. keys is held.
func (d *doorman) enforce(key Root) (changed bool, err error) {
	secret, ok := d.held(key)
	if !ok {
		return false, fmt.Errorf("%w: %s", errKeyNotHeld, key.Short())
	}
	ring := d.ring()
	if secret == ring.Current() {
		return false, nil
	}
	err = d.write(ring.Enforce(secret))
	return err == nil, err
}

// keep holds a secret that is not in force. keys is held.
func (d *doorman) keep(s admission.Secret) error {
	ring, err := d.ring().With(s)
	if err != nil {
		return err
	}
	return d.write(ring)
}

// write has a ring on disk before it is used. keys is held. At every moment each secret is in one of the two files.
func (d *doorman) write(ring admission.Ring) error {
	before := d.ring()
	all := before.Next()
	for _, s := range ring.Next() {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	if err := d.dir.replaceSecrets(nextFile, all, before.Next()); err != nil {
		return err
	}
	if err := d.dir.replaceSecrets(secretFile, ring.Line(), before.Line()); err != nil {
		return err
	}
	d.mu.Lock()
	d.mu.Ring = ring
	d.mu.Unlock()
	if err := d.dir.replaceSecrets(nextFile, ring.Next(), all); err != nil {
		d.log.Warn("old admission secrets could not be tidied away", "err", err) // those in the other file count
	}
	return nil
}

func (d *doorman) ring() admission.Ring {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.Ring
}

func (d *doorman) runID() Root {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.run
}

// replaceSecrets writes a file of secrets, unless they are those of before.
func (d dataDir) replaceSecrets(name string, secrets, before []admission.Secret) error {
	if slices.Equal(secrets, before) {
		return nil
	}
	if err := disk.Replace(d.fs, d.path(name), []byte(admission.Text(secrets))); err != nil {
		return fmt.Errorf("admission secrets: %w", err)
	}
	return nil
}

// loadRing reads the secrets of the data directory.
func (d dataDir) loadRing() (admission.Ring, error) {
	line, err := readSecrets(d.fs, d.path(secretFile))
	if err != nil {
		return admission.Ring{}, err
	}
	next, err := readSecrets(d.fs, d.path(nextFile))
	if err != nil {
		return admission.Ring{}, err
	}
	return admission.NewRing(line...).Restore(next), nil
}

// readSecrets are those in a file, none if there is no file.
func readSecrets(fsys disk.FS, path string) ([]admission.Secret, error) {
	b, err := disk.Read(fsys, path, 2*admission.MaxRingText) // one that is being rewritten may hold more for a moment
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	secrets, err := admission.ParseSecrets(string(b))
	if err == nil && len(secrets) == 0 && filepath.Base(path) != nextFile {
		_, err = admission.ParseSecret("")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return secrets, nil
}

// keyTimeout bounds fetching a secret from one peer, and giving it to one.
const keyTimeout = 10 * time.Second
