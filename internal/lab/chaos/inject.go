package chaos

import (
	"context"
	"os"
	"syscall"
	"time"
)

// inject carries out the beginning of a fault.
func (r *runner) inject(f *fault) error {
	switch f.Kind {
	case Kill, Leader, Wipe, All:
		for _, p := range f.victims {
			p.asked = true
			p.proc.Signal(syscall.SIGKILL) // kill all before waiting for any
		}
		for _, p := range f.victims {
			<-p.proc.Ended
			p.bury()
		}
	case Restart:
		f.victims[0].asked = true
		f.victims[0].proc.Signal(syscall.SIGTERM)
	case Stop:
		f.victims[0].freeze()
	case Bootstrap:
		r.boot.hurt = f
		r.boot.Signal(syscall.SIGKILL)
		<-r.boot.Ended
	case Late:
		return nil // a newcomer has nothing to end
	case Cut:
		return r.net.cut(f.victims[0].n)
	case Flap:
		return r.net.cut(f.victims[0].n)
	case Partition:
		return r.net.partition(f.Victims)
	case Slow:
		return r.net.slow(f.victims[0].n, true)
	}
	return nil
}

// lift carries out the end of a fault.
func (r *runner) lift(ctx context.Context, f *fault) error {
	switch f.Kind {
	case Wipe:
		if err := os.RemoveAll(f.victims[0].dir); err != nil {
			return err
		}
		return r.startNode(f.victims[0])
	case Kill, Leader, Restart, All, Late:
		for _, p := range f.victims {
			if err := r.startNode(p); err != nil {
				return err
			}
		}
	case Stop:
		f.victims[0].thaw()
	case Bootstrap:
		r.boot.hurt = nil
		return r.startBoot(ctx)
	case Cut, Flap:
		return r.net.heal(f.victims[0].n)
	case Partition:
		return r.net.healAll()
	case Slow:
		return r.net.slow(f.victims[0].n, false)
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
	if due%2 == 0 {
		return r.net.cut(f.victims[0].n)
	}
	return r.net.heal(f.victims[0].n)
}
