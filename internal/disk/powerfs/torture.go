package powerfs

import (
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// Disk is what a Victim lives on. What is on it changes when the power goes.
type Disk struct{ *FS }

// Victim is a program over all its processes. It knows what was acknowledged to it.
type Victim interface {
	// Live is a life of one process or several. It ends with the first error.
	Live() error
	// Next is one more process. It fails the test where something is missing or torn, and works.
	Next() error
	// Fatalf fails the test, and says more about this life.
	Fatalf(format string, args ...any)
}

// Plan says what happens to lives. The zero value of all but the first two is a power cut: what was
// not synced survives in many ways.
type Plan struct {
	// Start makes a Victim that has not lived yet; how says where its life will break.
	Start func(how string, d *Disk) Victim
	Seeds uint64 // ways to survive, for each operation; fewer under the race detector
	// Kill has the process killed. The kernel lives on and the next process works, before the power
	// goes: what it was told is safe must not rest on what the first one left unsynced.
	Kill bool
	// Errs has an operation fail once, instead, with one of these. The process must say so.
	Errs []error
	// Again has the power go once more, at this operation of the next process, counted from 1.
	Again int
}

// Run breaks lives before each operation and after the last one. Seeds from 4 on, and all with a
// second cut, are mixed ways of what survives, other ones for each operation.
func (p Plan) Run() {
	n := p.life(-1, 0, Fault{}, nil)
	for i := range n + 1 {
		for seed := range testutil.Choose(min(p.Seeds, 2), p.Seeds, 10*p.Seeds) {
			at, fault, says := i, Fault{Cut: Before}, ErrPowerCut
			if i == n {
				at, fault.Cut = n-1, After
			}
			if len(p.Errs) > 0 {
				says = p.Errs[seed%uint64(len(p.Errs))]
				fault = Fault{Err: says}
			}
			if seed >= 4 || p.Again > 0 {
				seed += 4 + 1000*uint64(i)
			}
			p.life(at, seed, fault, says)
		}
	}
}

// life breaks one life at an operation, and returns how many there were.
func (p Plan) life(at int, seed uint64, fault Fault, says error) int {
	d := &Disk{New()}
	v := p.Start(fmt.Sprintf("%+v at operation %d, seed %d", fault, at, seed), d)
	d.failAt(at, fault)
	if err := v.Live(); !errors.Is(err, says) {
		v.Fatalf("it says %v", err)
	}
	ops := d.Ops()
	if p.Kill {
		d.FS = d.Restart(seed)
	} else {
		d.FS = d.Reboot(seed)
	}
	if p.Again == 0 {
		next(v)
	} else {
		d.CutAt(p.Again-1, Before)
		_ = v.Next()
	}
	if p.Kill || p.Again > 0 {
		d.FS = d.Reboot(seed)
		next(v)
	}
	return ops
}

// next has two more processes work: the second one finds what the first one has made of it.
func next(v Victim) {
	for range 2 {
		if err := v.Next(); err != nil {
			v.Fatalf("the next process: %v", err)
		}
	}
}
