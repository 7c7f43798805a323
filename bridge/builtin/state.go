package builtin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// The private state of a trainer is that of its optimizer: how many steps it has done, and the two
// moments (with Muon the momentum, and zeros).
// The position in the data is not part of it, because it follows from the task (sampler.go). In a
// file, all little-endian:
//
//	text      stateMagic, with the optimizer's name
//	32 bytes  SHA-256 of the layout
//	uint64    D
//	uint64    steps
//	D float32, D float32: mean of gradients, mean of squared gradients
//	32 bytes  SHA-256 of all before

const stateMagic = "p2pdiloco builtin:gpt %s 1\n"

// ErrState is wrapped when a file is not the state of a trainer of this model.
var ErrState = errors.New("not the saved state of this trainer")

// Save writes the optimizer's state to a new file.
func (t *Trainer) Save(_ context.Context, path string) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := sha256.New()
	w := io.MultiWriter(f, sum)
	if _, err := w.Write(t.opt.head(t.layout, uint64(t.opt.steps))); err != nil {
		return err
	}
	for _, moment := range [][]float32{t.opt.first, t.opt.second} {
		if err := binary.Write(w, binary.LittleEndian, moment); err != nil {
			return err
		}
	}
	_, err = f.Write(sum.Sum(nil))
	return err
}

func (o *adamW) head(l trainer.Layout, steps uint64) []byte {
	shape := sha256.Sum256(l.Append(nil))
	b := append(fmt.Appendf(nil, stateMagic, o.cfg.Optimizer), shape[:]...)
	b = binary.LittleEndian.AppendUint64(b, l.Elements())
	return binary.LittleEndian.AppendUint64(b, steps)
}

// Restore reads what Save wrote. It changes nothing and wraps ErrState unless the file is whole and
// of this model.
func (t *Trainer) Restore(_ context.Context, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(b) != len(t.opt.head(t.layout, 0))+2*4*len(t.opt.first)+sha256.Size {
		return fmt.Errorf("%w: %s has not the size of this model's", ErrState, path)
	}
	return t.opt.restore(t.layout, path, b)
}

// restore reads the contents of a file of the right size.
func (o *adamW) restore(l trainer.Layout, path string, b []byte) error {
	body, want := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], want) {
		return fmt.Errorf("%w: %s is damaged", ErrState, path)
	}
	head := len(o.head(l, 0))
	steps := binary.LittleEndian.Uint64(body[head-8:])
	if steps >= 1<<62 || !bytes.Equal(body[:head], o.head(l, steps)) {
		return fmt.Errorf("%w: %s is of another model or program", ErrState, path)
	}
	o.steps = int(steps)
	for _, moment := range [][]float32{o.first, o.second} {
		n, err := binary.Decode(body[head:], binary.LittleEndian, moment)
		if err != nil {
			return err
		}
		body = body[n:]
	}
	return nil
}
