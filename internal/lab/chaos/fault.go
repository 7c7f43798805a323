package chaos

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Injected is a fault as it happened.
type Injected struct {
	Fault
	// newest slot committed when it began
	BegunSlot uint64 `json:"begun_slot"`
	Victims   []int  `json:"victims"`
	// from its beginning until the next slot committed; 0: none did
	Recovery float64 `json:"recovery_seconds"`
	// from its end until all victims took part again; 0: they did not
	Return float64 `json:"return_seconds"`
	// no leader could be caught, or the victim did not come to its place
	Missed bool `json:"missed,omitempty"`

	began time.Time
	over  time.Time // when all victims took part again
}

// fault is a fault under way.
type fault struct {
	Injected
	row
	words   []string // of its row, those that are not done yet
	begun   bool     // it hurts its victims; a leader must be caught before
	armed   time.Time
	since   time.Time // when the first of its words began
	slot    uint64    // the newest one then
	victims []*node
	hit     []*node // on whom the words act
	busy    []*exec.Cmd
}

func newFault(f Fault) *fault {
	w := f.Kind.row()
	return &fault{Injected: Injected{Fault: f, Victims: []int{}}, row: w, words: strings.Fields(w.do)}
}

// doing says whether a fault has come to one of some words.
func (f *fault) doing(words ...string) bool {
	return len(f.words) > 0 && slices.Contains(words, f.words[0])
}

// advance takes every fault as far as it goes now, and begins those that are due.
func (r *runner) advance() error {
	for _, f := range r.active {
		if err := r.step(f); err != nil {
			return err
		}
	}
	r.active = slices.DeleteFunc(r.active, func(f *fault) bool {
		if len(f.words) > 0 && !f.Missed {
			return false
		}
		r.end(f)
		return true
	})
	for len(r.pending) > 0 && r.isTime(r.pending[0]) && r.mayBegin(r.pending[0]) {
		f := newFault(r.pending[0])
		f.armed, f.BegunSlot = time.Now(), r.ledger.slot
		r.pending = r.pending[1:]
		r.active = append(r.active, f)
		if f.pick == leader {
			continue // chase begins it
		}
		if err := r.begin(f, r.victims(f)...); err != nil {
			return err
		}
	}
	return nil
}

// isTime says whether a fault is due.
func (r *runner) isTime(f Fault) bool {
	if r.soak != nil {
		return !r.soak.from.IsZero() && time.Since(r.soak.from).Seconds() >= f.After
	}
	return r.ledger.slot >= f.Slot
}

// begin starts to hurt.
func (r *runner) begin(f *fault, some ...*node) error {
	f.begun, f.began, f.victims, f.hit = true, time.Now(), some, some
	f.since, f.BegunSlot, f.slot = f.began, r.ledger.slot, r.ledger.slot
	for _, p := range some {
		p.hurt = f
		f.Victims = append(f.Victims, p.n)
	}
	r.note("%s", f)
	return r.step(f)
}

func (r *runner) note(format string, args ...any) {
	r.screen.Note(fmt.Sprintf("slot %d: ", r.ledger.slot) + fmt.Sprintf(format, args...))
}

// step carries out a fault's words up to one that has to wait.
func (r *runner) step(f *fault) error {
	if !f.begun {
		return r.chase(f)
	}
	for len(f.words) > 0 {
		done, err := r.do(f, f.words[0])
		if !done || err != nil {
			return err
		}
		f.words, f.since, f.slot = f.words[1:], time.Now(), r.ledger.slot
	}
	return nil
}

// end notes that a fault is over.
func (r *runner) end(f *fault) {
	for _, p := range f.victims {
		p.hurt = nil
	}
	f.over = time.Now()
	r.done = append(r.done, f.Injected)
	if f.Return > 0 {
		r.note("back after %.1f s: %s", f.Return, f)
	}
}

func (f *fault) String() string {
	if len(f.Victims) == 0 {
		return f.name()
	}
	return f.name() + " of peer " + strings.Trim(fmt.Sprint(f.Victims), "[]")
}

// name is the kind of a fault, and the place of it.
func (f Fault) name() string {
	return strings.TrimSuffix(string(f.Kind)+":"+string(f.Place), ":")
}
