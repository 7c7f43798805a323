package document

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// look is how often a metrics file is looked at.
const look = time.Second

// tracker gets the lines of a metrics file. Where that was thinned they come anew.
type tracker interface {
	add(line []byte) error
	Close() error
}

func open(to string) (t tracker, err error) {
	kind, place, _ := strings.Cut(to, ":")
	if kind == "jsonl" {
		t, err = openLines(place)
	} else {
		t, err = newTensorBoard(place, time.Now())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	return t, nil
}

// FollowMetrics takes the slots of a metrics file, those that are there and those that come, to
// where they are to go, tensorboard:FOLDER or jsonl:FILE, until ctx ends. A slot that it cannot
// write ends it.
func FollowMetrics(ctx context.Context, metrics, to string) (err error) {
	t, err := open(to)
	if err != nil {
		return err
	}
	lines := eventlog.Follow(metrics)
	defer func() { err = errors.Join(err, lines.Close(), t.Close()) }()
	add := func(line []byte) {
		if err == nil {
			err = t.add(line)
		}
	}
	for over := false; !over && err == nil; {
		select {
		case <-time.After(look):
		case <-ctx.Done():
			over = true // the last slots are written, too
		}
		err = errors.Join(lines.Next(add), err)
	}
	return err
}

// lines appends to a file the lines that it lacks: a peer that was started again goes on in it.
type lines struct {
	file *eventlog.Writer
	has  map[[sha256.Size]byte]bool // hashes of lines
}

func openLines(path string) (*lines, error) {
	l := &lines{has: map[[sha256.Size]byte]bool{}}
	before := eventlog.Follow(path)
	err := before.Next(func(line []byte) { l.has[sha256.Sum256(line)] = true })
	if err = errors.Join(err, before.Close()); err != nil {
		return nil, err
	}
	l.file, err = eventlog.Create(path, eventlog.Rotation{})
	return l, err
}

func (l *lines) add(line []byte) error {
	hash := sha256.Sum256(line)
	if l.has[hash] {
		return nil
	}
	l.has[hash] = true
	return l.file.Line(line)
}

// Close closes the file.
func (l *lines) Close() error { return l.file.Close() }
