// Package order is how a test tells a process with failpoints (package failpoint) where to fail: by
// a file of one line, such as
//
//	vote-signed crash
//	checkpoint-half sleep 3s
//
// Arm writes the file, Take is what the process does at each place, and Taken says whether it has
// come there. An order is taken once.
package order

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// Variable names the environment variable with the path of the file.
const Variable = "P2PDILOCO_FAILPOINTS"

// Clock names the environment variable that says by how much a process's clock is ahead, like 90m,
// or behind, like -90m.
const Clock = "P2PDILOCO_FAILPOINTS_CLOCK"

// Action is what a process does.
type Action string

// The actions.
const (
	Crash Action = "crash" // it is killed at once, as by kill -9
	Panic Action = "panic" // it ends with the stacks of all goroutines
	Sleep Action = "sleep" // the goroutine that comes to the place waits
)

// An Order tells a process to fail at a place.
type Order struct {
	Place string
	Act   Action
	For   time.Duration // of Sleep
}

func (o Order) String() string {
	if o.Act == Sleep {
		return fmt.Sprintf("%s %s %s", o.Place, o.Act, o.For)
	}
	return fmt.Sprintf("%s %s", o.Place, o.Act)
}

// Parse reads an order.
func Parse(line string) (o Order, err error) {
	words := strings.Fields(line)
	wrong := fmt.Errorf("%q is no order: write PLACE crash, PLACE panic, or PLACE sleep 3s", line)
	if len(words) < 2 {
		return Order{}, wrong
	}
	o.Place, o.Act = words[0], Action(words[1])
	switch {
	case len(words) == 2 && slices.Contains([]Action{Crash, Panic}, o.Act):
		return o, nil
	case len(words) == 3 && o.Act == Sleep:
		if o.For, err = time.ParseDuration(words[2]); err == nil && o.For > 0 {
			return o, nil
		}
	}
	return Order{}, wrong
}

// Arm gives an order to the process whose file this is, in place of an order that was not taken.
func Arm(path string, o Order) error {
	if err := os.Remove(takenPath(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	next := path + ".new"
	if err := os.WriteFile(next, []byte(o.String()+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(next, path) // the process never reads a part of it
}

// Disarm takes an order back, and says whether it was in time: false if the process has taken it.
func Disarm(path string) (bool, error) {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Take takes the order if it is for a place, and says whether it was.
func Take(path, place string) (Order, bool, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Order{}, false, nil
	}
	if err != nil {
		return Order{}, false, err
	}
	o, err := Parse(strings.TrimSpace(string(b)))
	if err != nil {
		return Order{}, false, fmt.Errorf("%s: %w", path, err)
	}
	if o.Place != place {
		return Order{}, false, nil
	}
	err = os.Rename(path, takenPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return Order{}, false, nil // another goroutine has taken it, or it was taken back
	}
	return o, err == nil, err
}

// Taken says whether the newest order was taken.
func Taken(path string) bool {
	_, err := os.Stat(takenPath(path))
	return err == nil
}

func takenPath(path string) string { return path + ".taken" }
