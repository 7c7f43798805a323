package chaos

import (
	"debug/buildinfo"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/failpoint/order"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// HasFailpoints says whether the program at path was built with failpoints. It fails for a file
// that is no Go program.
func HasFailpoints(path string) (bool, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return false, err
	}
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			return slices.Contains(strings.Split(s.Value, ","), "failpoints"), nil
		}
	}
	return false, nil
}

// orders is the file with the orders to a peer's processes.
func (p *node) orders() string { return p.Data + ".failpoint" }

// arm gives the victim its order: to crash, or to sleep, where it next comes to a place.
func (f *fault) arm() error {
	p := f.victims[0]
	f.from = len(p.lines)
	p.asked = f.Nap == 0 // it ends by a signal, as a peer does that chaos kills
	o := order.Order{Place: string(f.Place), Act: order.Crash}
	if f.Nap > 0 {
		o.Act, o.For = order.Sleep, time.Duration(f.Nap*float64(time.Second))
	}
	return order.Arm(p.orders(), o)
}

// struck looks whether the victim has come to its place. An order that is not taken in time is
// taken back.
func (r *runner) struck(f *fault) error {
	p := f.victims[0]
	if !f.struck.IsZero() || f.Missed {
		return nil
	}
	if !order.Taken(p.orders()) {
		if p.gone {
			r.ended = append(r.ended, fmt.Sprintf("peer %d ended before it came to %s; the end of its log:\n%s", p.n,
				f.Place, swarm.Tail(p.Log)))
			return nil
		}
		if r.mayStillCome(f) && r.onItsWay(f) || time.Since(f.armedAt) < lastChance {
			return nil
		}
		inTime, err := order.Disarm(p.orders())
		if inTime {
			p.asked, f.Missed = false, true
		}
		if err != nil || inTime {
			return err
		}
	}
	f.began, f.BegunSlot, f.struck = time.Now(), r.ledger.slot, time.Now()
	r.screen.Note(fmt.Sprintf("slot %d: peer %d is at %s", r.ledger.slot, p.n, f.Place))
	if f.Nap == 0 && !p.gone {
		<-p.Ended // it is killed
		p.bury()
	}
	return nil
}

// lastChance is how long a victim has to come to its place where the run has no slot left for that.
const lastChance = 2 * time.Second

// onItsWay says whether more slots can bring a victim to its place, or make it miss as many as was
// drawn.
func (r *runner) onItsWay(f *fault) bool {
	return r.ledger.slot+1 < r.cfg.Slots && (f.struck.IsZero() || r.ledger.slot < f.BegunSlot+f.Slots)
}

// napped says whether a fault of kind Failpoint is over but for its slots and seconds.
func (f *fault) napped() bool {
	return !f.struck.IsZero() && time.Since(f.struck).Seconds() >= f.Nap
}

// revive starts a victim that has crashed.
func (r *runner) revive(f *fault) error {
	if p := f.victims[0]; p.gone {
		return r.startNode(p)
	}
	return nil
}
