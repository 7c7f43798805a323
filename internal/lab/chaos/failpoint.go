package chaos

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/doctor"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
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

// order tells the victim to crash, or to sleep, where it next comes to a place.
func (f *fault) order() error {
	p, o := f.victims[0], order.Order{Place: string(f.Place), Act: order.Crash}
	if f.Nap > 0 {
		o.Act, o.For = order.Sleep, time.Duration(f.Nap*float64(time.Second))
	}
	p.asked = f.Nap == 0 // it ends by a signal, as a peer does that chaos kills
	return order.Arm(p.orders(), o)
}

// reached says whether the victim has come to its place: there the fault begins. An order that is
// not taken in time is taken back.
func (r *runner) reached(f *fault) (bool, error) {
	p := f.victims[0]
	if !order.Taken(p.orders()) {
		if p.gone {
			r.ended = append(r.ended, fmt.Sprintf("peer %d ended before it came to %s; the end of its log:\n%s", p.n,
				f.Place, swarm.Tail(p.Log)))
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
	if f.Nap == 0 && !p.gone {
		<-p.Ended // it is killed
		p.bury()
	}
	return true, nil
}

// checkClock holds what doctor says of the newcomer's clock against what is wrong with it. That it
// says something else, or that the newcomer has founded a run of its own, is a fault.
func (r *runner) checkClock(f *fault, said string) {
	if !strings.Contains(said, "this machine's clock is 1h30m0s ahead") {
		r.isOdd(f, "its clock is %v ahead, and doctor says of it: %q", fast, said)
	}
	if slices.ContainsFunc(f.victims[0].heard, func(l eventlog.Line) bool { return l.Event == "run.founded" }) {
		r.isOdd(f, "with a clock %v ahead it has founded a run of its own", fast)
	}
}

// doctorsClock is doctor's line of a peer's clock, or why there is none.
func doctorsClock(p *swarm.Peer) string {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	all, err := p.Probe(ctx)
	if err != nil {
		return err.Error()
	}
	view := &doctor.View{}
	for _, found := range all {
		view.Peers = append(view.Peers, doctor.Peer{ID: found.Peer.String(), Error: found.Error, Offset: found.Offset})
	}
	for _, finding := range view.Check() {
		if finding.Check == "clock" {
			return finding.What
		}
	}
	return ""
}
