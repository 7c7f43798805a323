package chaos

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// busyLoops is how many processes take the processors in a fault of kind Load.
const busyLoops = 10

// load starts processes that do nothing but take time on all processors.
func (f *fault) load() error {
	var errs []error
	for range busyLoops {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			errs = append(errs, err)
			continue
		}
		f.busy = append(f.busy, cmd)
	}
	return errors.Join(errs...)
}

// unload ends them.
func (f *fault) unload() {
	for _, cmd := range f.busy {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	}
	f.busy = nil
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
	if took > r.cfg.lostLate() {
		r.slow = append(r.slow, fmt.Sprintf("peer %d was missed %v after it was killed, with load from slot %d on",
			f.victims[0].n, took.Round(10*time.Millisecond), f.BegunSlot))
	}
	return true
}

// misses says whether a peer takes another one for lost, as it last said.
func (p *node) misses(other *node) bool {
	i := slices.IndexFunc(p.status.Members, func(m p2pdiloco.MemberStatus) bool { return m.Peer.String() == other.ID })
	return len(p.status.Members) > 0 && (i < 0 || p.status.Members[i].State == "missing")
}
