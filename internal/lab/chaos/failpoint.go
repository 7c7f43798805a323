package chaos

import (
	"debug/buildinfo"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/failpoint/order"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// HasFailpoints says whether the file is a Go program that was built with failpoints.
func HasFailpoints(program string) bool {
	info, err := buildinfo.ReadFile(program)
	return err == nil && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		return s.Key == "-tags" && slices.Contains(strings.Split(s.Value, ","), "failpoints")
	})
}

// orders is the file with the orders to a peer's processes.
func (p *node) orders() string { return p.Data + ".failpoint" }

// order tells the victim to crash, or to sleep, where it next comes to a place.
func (r *runner) order(f *fault) error {
	p, o := f.victims[0], order.Order{Place: string(f.Place)}
	if f.Nap {
		o.Sleep = r.length(f)
	}
	p.asked = !f.Nap // it ends by a signal, as a peer does that chaos kills
	return order.Arm(p.orders(), o)
}

// reached says whether the victim has come to its place: there the fault begins. An order that is
// not taken in time is taken back.
func (r *runner) reached(f *fault) (bool, error) {
	p := f.victims[0]
	if !order.Taken(p.orders()) {
		if p.gone {
			r.ended.add("peer %d ended before it came to %s; the end of its log:\n%s", p.n, f.Place, lab.Tail(p.Log))
			return false, nil
		}
		if r.mayStillCome(f) {
			return false, nil
		}
		if inTime, err := order.Disarm(p.orders()); inTime || err != nil {
			p.asked, f.Missed = false, inTime
			return false, err
		}
	}
	f.began, f.BegunSlot = time.Now(), r.ledger.slot
	r.note("peer %d is at %s", p.n, f.Place)
	if !f.Nap && !p.gone {
		<-p.Ended // it is killed
		p.bury()
	}
	return true, nil
}
