package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// network is what changes the links between sites: a lab.Lab. Site 0 is that of the bootstrap node,
// site n that of peer n.
type network interface {
	Cut(sites ...int) error
	Mute(sites ...int) error
	CutPair(i, j int) error
	Partition(sites ...int) error
	SetLink(site int, l lab.Link) error
	Heal(sites ...int) error
}

// Over a slow link a slot of the tiny model still passes in about a second.
var slowLink = lab.Link{Rate: 4_000_000, Delay: 40 * time.Millisecond}

// do carries out a word of a fault's row, and says whether the next one may follow: those of the
// last switch wait for something.
func (r *runner) do(f *fault, word string) (done bool, err error) {
	switch word {
	case "victims":
		f.hit = f.victims
	case "others":
		f.hit = r.others(f)
	case "all":
		f.hit = r.nodes
	case "kill":
		killAll(f.hit)
	case "term":
		signal(f.hit, syscall.SIGTERM)
	case "stop":
		for _, p := range f.hit {
			p.frozen = true
			p.Signal(syscall.SIGSTOP)
		}
	case "cont":
		for _, p := range f.hit {
			p.thaw()
		}
	case "wipe":
		for _, p := range f.hit {
			err = errors.Join(err, os.RemoveAll(p.Data))
		}
	case "start":
		err = r.startAll(f.hit)
	case "kill-boot":
		r.bootDown = true
		r.boot.Signal(syscall.SIGKILL)
		<-r.boot.Ended
	case "start-boot":
		r.bootDown = false
		err = r.startBoot(context.Background()) // it has a bound of its own
	case "burn":
		err = f.burn()
	case "calm":
		f.calm()
	case "order":
		err = r.order(f)
	case "mount", "fill", "unmount":
		err = f.disk(word)
	default:
		return r.change(f, word)
	}
	return true, err
}

// change carries out the words about links.
func (r *runner) change(f *fault, word string) (done bool, err error) {
	switch word {
	case "cut":
		err = r.links.Cut(f.Victims...)
	case "mute":
		err = r.links.Mute(f.Victims...)
	case "pair":
		err = r.links.CutPair(f.Victims[0], f.Victims[1])
	case "part":
		err = r.links.Partition(f.Victims...)
	case "slow":
		err = r.links.SetLink(f.Victims[0], slowLink)
	case "lossy":
		err = r.links.SetLink(f.Victims[0], lab.Link{Delay: r.cfg.link().Delay, Loss: 20})
	case "heal":
		err = errors.Join(r.links.Heal(f.Victims...), r.links.SetLink(f.Victims[0], r.cfg.link()))
	case "unite":
		err = r.links.Heal()
	default:
		return r.awaits(f, word)
	}
	return true, err
}

// awaits says whether what a word waits for has come, or will not come any more.
func (r *runner) awaits(f *fault, word string) (done bool, err error) {
	switch word {
	case "lasts":
		return r.lasted(f), nil
	case "pause":
		return time.Since(f.since) >= 400*time.Millisecond, nil
	case "again": // all from the beginning
		if !r.lasted(f) {
			f.words = append([]string{word}, strings.Fields(f.row.do)...)
		}
		return true, nil
	case "advance": // a slot by those that run; what was under way may still be told
		return r.ledger.slot > f.slot || r.ledger.newest.After(f.since.Add(time.Second)) ||
			r.vain(f, f.since, "nobody went on"), nil
	case "fork":
		return !r.cfg.forks() || !f.Fork ||
			slices.ContainsFunc(r.nodes, func(p *node) bool { return p.status.Provisional != "" }) ||
			r.vain(f, f.began, noBranch), nil
	case "missed":
		return r.missed(f), nil
	case "reached":
		return r.reached(f)
	case "finish":
		return !slices.ContainsFunc(f.hit, func(p *node) bool {
			return !p.gone && p.status.Phase != p2pdiloco.PhaseEnded
		}), nil
	}
	return r.awaitsAll(f, word)
}

// awaitsAll are the words that say that some peers are gone, or are back. How long that takes
// counts as the time of their return, and is bounded.
func (r *runner) awaitsAll(f *fault, word string) (done bool, err error) {
	for _, p := range f.hit {
		switch word {
		case "exited", "full":
			done = p.gone
		case "back":
			done = p.back(f.slot) && r.takesPart(f, p)
		default:
			panic("chaos: no such word: " + word)
		}
		if most := r.cfg.stretch(returnWithin); !done && time.Since(f.since) > most {
			return false, fmt.Errorf("%w: peer %d is not %s after %v: %s", errHang, p.n, word, most, f)
		}
		if !done {
			return false, nil
		}
	}
	f.Return = time.Since(f.since).Seconds()
	return true, nil
}

// signal tells some peers' processes to end.
func signal(some []*node, how syscall.Signal) {
	for _, p := range some {
		p.asked = true
		p.Signal(how)
	}
}

// killAll ends some peers' processes: all are killed before it waits for any.
func killAll(some []*node) {
	some = slices.DeleteFunc(slices.Clone(some), func(p *node) bool { return p.gone })
	signal(some, syscall.SIGKILL)
	for _, p := range some {
		<-p.Ended
		p.bury()
	}
}

// others are the peers that are not a fault's victims.
func (r *runner) others(f *fault) []*node {
	return slices.DeleteFunc(slices.Clone(r.nodes), func(p *node) bool { return p.hurt == f })
}

// longestFault bounds a fault's length in case the swarm makes no progress.
const longestFault = 10 * time.Second

// lasted says whether a fault has lasted for the slots and the time that were drawn.
func (r *runner) lasted(f *fault) bool {
	since := time.Since(f.began)
	enough := r.ledger.slot >= f.BegunSlot+f.Slots || since >= r.cfg.stretch(longestFault)
	return enough && since >= r.length(f)
}

// length is how long a fault lasts at least, with the peers' timers.
func (r *runner) length(f *fault) time.Duration {
	d := r.cfg.stretch(time.Duration(f.Seconds * float64(time.Second)))
	if f.Fork {
		d += r.cfg.timing().Ledger.ForkAfter
	}
	return d
}

// takesPart says whether a peer is a member again. After a partition there may have been two
// chains, and the logs do not say which one remains: then all peers must have all others in their
// own lists.
func (r *runner) takesPart(f *fault, p *node) bool {
	if !f.is(branch) {
		return slices.Contains(r.ledger.members, p.ID)
	}
	for _, q := range r.nodes {
		members := q.members()
		if !q.back(f.slot) || slices.ContainsFunc(r.nodes,
			func(o *node) bool { return !slices.Contains(members, o.ID) }) {
			return false
		}
		r.ledger.height, r.ledger.members = q.status.Height, members
	}
	return true
}

const noBranch = "nobody went on as a branch"

// patience is for how long those that are left may take to go on: with trust crash they fork the
// run, also on a busy machine. With trust byzantine they wait in vain.
func (c Config) patience() time.Duration {
	slack := 15 * time.Second
	if c.forks() {
		slack = 30 * time.Second
	}
	return c.timing().Ledger.ForkAfter + c.stretch(slack)
}

// vain says whether what a fault is about has not come for too long, and takes note of it. Only
// with trust crash does a minority go on, and only where there is a slot left.
func (r *runner) vain(f *fault, since time.Time, what string) bool {
	most := r.cfg.patience()
	if time.Since(since) < most {
		return false
	}
	if r.cfg.forks() && f.BegunSlot+1 < r.cfg.Slots {
		r.isOdd(f, "%s in %v", what, most)
	}
	return true
}

// isOdd takes note of a fault that did not end as it should.
func (r *runner) isOdd(f *fault, format string, args ...any) {
	r.odd.add("slot %d: %s: %s", f.BegunSlot, f, fmt.Sprintf(format, args...))
}

// missed says whether the others miss a victim that was killed under load, or never did. A record
// leaves it out then, or with the next step.
func (r *runner) missed(f *fault) bool {
	took, victim := time.Since(f.since), f.victims[0]
	said := slices.ContainsFunc(r.sound(), func(p *node) bool { return p.misses(victim) })
	if !said && took < r.cfg.stretch(longestFault) {
		return false
	}
	text := fmt.Sprintf("missed %.1f s after it was killed: peer %d", took.Seconds(), victim.n)
	if took > r.cfg.lostLate() {
		r.isOdd(f, "%s", text)
	} else {
		r.fine = append(r.fine, text)
	}
	return true
}
