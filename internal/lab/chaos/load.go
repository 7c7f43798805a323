package chaos

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// busyLoops is how many processes take the processors in a fault of kind Load.
const busyLoops = 10

// loops are processes that do nothing but take time on all processors.
type loops []*exec.Cmd

// busyLoop ends by itself, in a second or so, once the process that has started it is gone.
const busyLoop = `while kill -0 $PPID 2>/dev/null; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done`

// start starts so many.
func (l *loops) start(n int) error {
	var errs []error
	for range n {
		cmd := exec.Command("sh", "-c", busyLoop)
		if err := cmd.Start(); err != nil {
			errs = append(errs, err)
			continue
		}
		*l = append(*l, cmd)
	}
	return errors.Join(errs...)
}

// end ends them.
func (l *loops) end() {
	for _, cmd := range *l {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	}
	*l = nil
}

// load begins a fault of kind Load. Where the whole run has its load there is nothing to begin.
func (r *runner) load(f *fault) error {
	if r.cfg.Load > 0 {
		return nil
	}
	return f.busy.start(busyLoops)
}

// underLoad takes note of members that are lost to nothing but load, and kills the victim once the
// load has lasted for the time that was drawn.
func (r *runner) underLoad(f *fault) {
	for _, p := range r.nodes {
		if p.hurt != f || f.killed.IsZero() {
			r.missLiving(f, p)
		}
	}
	if since := time.Since(f.began); f.killed.IsZero() && since.Seconds() >= f.Seconds && r.ledger.slot > f.BegunSlot {
		killAll(f.victims)
		f.killed = time.Now()
	}
}

// missLiving takes note of a member that is lost though it lives.
func (r *runner) missLiving(f *fault, p *node) {
	if slices.Contains(f.members, p.ID) && !slices.Contains(r.ledger.members, p.ID) {
		f.members = slices.DeleteFunc(f.members, func(id string) bool { return id == p.ID }) // once
		r.slow = append(r.slow, fmt.Sprintf("peer %d was lost, from slot %d on", p.n, f.BegunSlot))
	}
}

// missed says whether the others miss the victim that was killed. A record leaves it out then, or
// with the next step.
func (r *runner) missed(f *fault) bool {
	took := time.Since(f.killed)
	said := slices.ContainsFunc(r.sound(), func(p *node) bool { return p.misses(f.victims[0]) })
	if !said && took < r.cfg.stretch(longestFault) {
		return false
	}
	f.missedIn = took
	if took > r.cfg.lostLate() {
		r.slow = append(r.slow, fmt.Sprintf("peer %d was missed %v after it was killed, with load from slot %d on",
			f.victims[0].n, took.Round(10*time.Millisecond), f.BegunSlot))
	}
	return true
}

// checkLoad: no member is lost to load, and one that is killed under it is missed in time.
func (r *runner) checkLoad() Check {
	var fine []string
	if r.cfg.Load > 0 {
		fine = append(fine, fmt.Sprintf("%d busy processes all the time", r.cfg.Load))
	}
	for _, f := range r.done {
		if f.missedIn > 0 {
			took := f.missedIn.Round(10 * time.Millisecond)
			fine = append(fine, fmt.Sprintf("missed %v after it was killed: peer %d", took, f.Victims[0]))
		}
	}
	return verdict(CheckLoad, r.slow, strings.Join(fine, "; "))
}

// misses says whether a peer takes another one for lost, as it last said.
func (p *node) misses(other *node) bool {
	i := slices.IndexFunc(p.status.Members, func(m p2pdiloco.MemberStatus) bool { return m.Peer.String() == other.ID })
	return len(p.status.Members) > 0 && (i < 0 || p.status.Members[i].State == "missing")
}
