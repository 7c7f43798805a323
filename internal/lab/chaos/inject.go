package chaos

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/failpoint/order"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// inject carries out the beginning of a fault.
func (r *runner) inject(f *fault) error {
	switch f.Kind {
	case Kill, Leader, Wipe, WipeTwo, All, Turns, End:
		killAll(f.victims)
	case Restart:
		f.victims[0].asked = true
		f.victims[0].Signal(syscall.SIGTERM)
	case Stop:
		f.victims[0].freeze()
	case Bootstrap:
		r.boot.hurt = f
		r.boot.Signal(syscall.SIGKILL)
		<-r.boot.Ended
	case Late:
		return nil // a newcomer has nothing to end
	case Clock:
		f.victims[0].Env = append(f.victims[0].Env, order.Clock+"="+fast.String())
	case Load:
		return r.load(f)
	case DiskFull:
		return r.smallDisk(f)
	case Failpoint:
		return f.arm()
	case OneWay:
		return r.links.Mute(f.Victims...)
	case Cut, Flap:
		return r.links.Cut(f.Victims...)
	case Pair, FlapPair:
		return r.links.CutPair(f.Victims[0], f.Victims[1])
	case Loss:
		return r.links.SetLink(f.Victims[0], lab.Link{Delay: r.cfg.link().Delay, Loss: 20})
	case Partition, Apart:
		return r.links.Partition(f.Victims)
	case Slow:
		return r.links.SetLink(f.Victims[0], slowLink)
	}
	return nil
}

// killAll ends some peers' processes: all are killed before it waits for any.
func killAll(some []*node) {
	for _, p := range some {
		p.asked = true
		p.Signal(syscall.SIGKILL)
	}
	for _, p := range some {
		<-p.Ended
		p.bury()
	}
}

// lift carries out the end of a fault.
func (r *runner) lift(ctx context.Context, f *fault) error {
	switch f.Kind {
	case Wipe, WipeTwo:
		for _, p := range f.victims {
			if err := os.RemoveAll(p.Data); err != nil {
				return err
			}
		}
		return r.startAll(f.victims)
	case DiskFull:
		return r.largeDisk(f)
	case Kill, Leader, Restart, All, Late, Clock, End:
		return r.startAll(f.victims)
	case Failpoint:
		return r.revive(f)
	case Turns:
		return r.startAll(f.others)
	case Stop:
		f.victims[0].thaw()
	case Bootstrap:
		r.boot.hurt = nil
		return r.startBoot(ctx)
	case Load:
		f.busy.end()
		return r.startNode(f.victims[0])
	case Cut, Flap, Pair, FlapPair, OneWay:
		return r.links.Heal(f.Victims...)
	case Partition, Apart:
		return r.links.Heal()
	case Slow, Loss:
		return r.links.SetLink(f.Victims[0], r.cfg.link())
	}
	return nil
}

// flapEvery is how long a flapping link stays up, and down.
const flapEvery = 400 * time.Millisecond

// flap takes the link up or down when it is time.
func (r *runner) flap(f *fault) error {
	due := int(time.Since(f.began) / flapEvery)
	if due == f.flips {
		return nil
	}
	f.flips = due
	switch {
	case due%2 == 1:
		return r.links.Heal(f.Victims...)
	case f.Kind == FlapPair:
		return r.links.CutPair(f.Victims[0], f.Victims[1])
	}
	return r.links.Cut(f.Victims...)
}

// The namespaces' names begin with labName, so that a later run removes those of a crashed one.
const labName = "p2pchaos"

// An undisturbed link is like that of a building's network. Over a slow one a slot of the tiny
// model still passes in about a second.
var (
	goodLink = lab.Link{Delay: 200 * time.Microsecond}
	slowLink = lab.Link{Rate: 4_000_000, Delay: 40 * time.Millisecond}
	wanLink  = lab.Link{Rate: 50_000_000, Delay: 25 * time.Millisecond}
)

// openLinks makes a network whose links can be changed. Site 0 is that of the bootstrap node, site
// n that of peer n.
func openLinks(ctx context.Context, sites int, link lab.Link) (*lab.Lab, error) {
	l, err := lab.New(ctx, lab.Config{Nodes: sites, Name: labName, Link: link})
	if err != nil {
		return nil, fmt.Errorf("%w (or leave out the faults %v)", err, NeedLinks(Kinds(true)))
	}
	return l, nil
}

// CanLinks says why links cannot be changed here, or nil.
func CanLinks(ctx context.Context) error {
	l, err := lab.New(ctx, lab.Config{Nodes: 1, Name: labName + "try"})
	if err != nil {
		return err
	}
	return l.Close()
}
