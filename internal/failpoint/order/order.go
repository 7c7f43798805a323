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
	"strings"
	"time"
)

// Variable names the environment variable with the path of the file.
const Variable = "P2PDILOCO_FAILPOINTS"

// Clock names the environment variable that says by how much a process's clock is ahead, like 90m,
// or behind, like -90m.
const Clock = "P2PDILOCO_FAILPOINTS_CLOCK"

// An Order tells a process to fail at a place.
type Order struct {
	Place string
	// how long the goroutine that comes to the place waits; 0: the process is killed, as by kill -9
	Sleep time.Duration
}

func (o Order) String() string {
	if o.Sleep > 0 {
		return fmt.Sprintf("%s sleep %s", o.Place, o.Sleep)
	}
	return o.Place + " crash"
}

// Parse reads an order.
func Parse(line string) (o Order, err error) {
	words := strings.Fields(line)
	switch {
	case len(words) == 2 && words[1] == "crash":
		return Order{Place: words[0]}, nil
	case len(words) == 3 && words[1] == "sleep":
		o.Place = words[0]
		if o.Sleep, err = time.ParseDuration(words[2]); err == nil && o.Sleep > 0 {
			return o, nil
		}
	}
	return Order{}, fmt.Errorf("%q is no order: write PLACE crash, or PLACE sleep 3s", line)
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
