package chaos

import (
	"errors"
	"os/exec"
	"slices"

	"github.com/p2pdiloco/p2pdiloco"
)

// busyLoops is how many processes take the processors in a fault of kind Load.
const busyLoops = 10

// loops are processes that do nothing but take time on all processors.
type loops []*exec.Cmd

// busyLoop ends by itself, in a second or so, once the process that has started it is gone.
const busyLoop = `while kill -0 $PPID 2>/dev/null; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done`

// start starts so many.
func (l *loops) start(n int) (err error) {
	for range n {
		cmd := exec.Command("sh", "-c", busyLoop)
		if failed := cmd.Start(); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		*l = append(*l, cmd)
	}
	return err
}

// end ends them.
func (l *loops) end() {
	for _, cmd := range *l {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	}
	*l = nil
}

// misses says whether a peer takes another one for lost, as it last said.
func (p *node) misses(other *node) bool {
	i := slices.IndexFunc(p.status.Members, func(m p2pdiloco.MemberStatus) bool { return m.Peer.String() == other.ID })
	return len(p.status.Members) > 0 && (i < 0 || p.status.Members[i].State == "missing")
}
