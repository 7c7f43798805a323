package builtin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
)

// ErrNoData is wrapped by errors that say the corpus has no text, or too little for the
// configuration.
var ErrNoData = errors.New("not enough data")

// CorpusConfig says what to read. The zero value reads the Go standard library's own source. All
// peers of a run should read the same data under the same configuration: then they train on
// disjoint parts, and their held-out losses can be compared.
type CorpusConfig struct {
	// Paths are text files, and folders that are searched for text files; hidden files, folders
	// named testdata or vendor, symbolic links and files with zero bytes in them are passed over.
	// Default: *.go under GOROOT/src, without cmd.
	Paths []string
	// MaxBytes bounds what is read and held in memory; beyond it files are left out. Default 64
	// MiB, most 1 GiB.
	MaxBytes int
	// HoldOut is the number of files of which one is held out of training. Default 16.
	HoldOut int
}

// WithDefaults is c with defaults for all fields that are 0, except Paths.
func (c CorpusConfig) WithDefaults() CorpusConfig {
	c.MaxBytes = cmp.Or(c.MaxBytes, 64<<20)
	c.HoldOut = cmp.Or(c.HoldOut, 16)
	return c
}

// Validate returns all faults of c, with defaults applied, in one joined error.
func (c CorpusConfig) Validate() error {
	c = c.WithDefaults()
	errs := []error{between("corpus bytes", c.MaxBytes, 1<<30)}
	if c.HoldOut < 2 || c.HoldOut > math.MaxInt16 {
		errs = append(errs, fmt.Errorf("hold out one file of %d: 2 to %d is allowed", c.HoldOut, math.MaxInt16))
	}
	return errors.Join(errs...)
}

// Corpus is text held in memory, in two parts without overlap: one to train on, and one held out.
// It is never written after OpenCorpus, so trainers may share it.
type Corpus struct {
	train   []byte
	heldOut []byte
}

// OpenCorpus reads the data. The same files under the same root give the same corpus on every
// machine: a hash of each file's path below its root, with slashes, decides the order and what is
// held out. If that hash holds out far too little or too much, as with a handful of files, the end
// of every file is held out instead.
//
// It wraps ErrNoData when nothing was found, fs.ErrNotExist or fs.ErrPermission when a path cannot
// be read.
func OpenCorpus(ctx context.Context, cfg CorpusConfig) (*Corpus, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	files, err := cfg.list(ctx)
	if err != nil {
		return nil, err
	}
	c, err := cfg.read(ctx, files, byFile)
	if err == nil && !c.balanced(cfg.HoldOut) {
		c, err = cfg.read(ctx, files, byTail)
	}
	if err != nil {
		return nil, err
	}
	if len(c.train) == 0 {
		return nil, fmt.Errorf("%w: no text in the %d files found: name text files or folders that hold some (--data)",
			ErrNoData, len(files))
	}
	return c, nil
}

// balanced says whether the held-out part is between a quarter and four times what one file of
// holdOut should give, and no more than half of all.
func (c *Corpus) balanced(holdOut int) bool {
	all := len(c.train) + len(c.heldOut)
	return len(c.heldOut)*4*holdOut >= all && len(c.heldOut)*holdOut <= 4*all && len(c.heldOut)*2 <= all
}

// check says whether both parts are large enough for windows of n bytes.
func (c *Corpus) check(n int) error {
	if len(c.train) < 2*n {
		return fmt.Errorf("%w: %d bytes to train on, and two sequences need %d: give more text (--data) or a shorter "+
			"context",
			ErrNoData, len(c.train), 2*n)
	}
	if len(c.heldOut) < n {
		return fmt.Errorf("%w: %d bytes held out, and one sequence needs %d: give more text (--data) or a shorter "+
			"context",
			ErrNoData, len(c.heldOut), n)
	}
	return nil
}

// heldOutBatch cuts sequences of the given length at even distances from the held-out part. It
// depends on nothing else, so that peers with the same data measure the same.
func (c *Corpus) heldOutBatch(sequences, length int) (b batch) {
	room := len(c.heldOut) - length - 1
	for i := range sequences {
		b.appendWindow(c.heldOut[i*room/max(1, sequences-1):], length)
	}
	return b
}

// appendWindow appends the first length bytes of text as a sequence, and the byte after each as its
// target.
func (b *batch) appendWindow(text []byte, length int) {
	b.inputs = append(b.inputs, text[:length]...)
	b.targets = append(b.targets, text[1:length+1]...)
}
