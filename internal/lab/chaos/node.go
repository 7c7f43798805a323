package chaos

import (
	"slices"
	"syscall"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// node is one peer of the swarm.
type node struct {
	*lab.Peer
	n      int             // from 1; also its site
	lines  []eventlog.Line // all its events that matter
	status p2pdiloco.Status
	asking bool // its status was asked for and has not come

	asked  bool   // its process was told to end, or was killed
	frozen bool   // by SIGSTOP
	gone   bool   // its process has ended
	hurt   *fault // what it suffers from now
}

// standsOut is the event that says that what a member contributes is unlike what others do.
const standsOut = "peer.stands_out"

// useful are the events that say something about the chain, the state, the process, or another
// peer.
var useful = []string{
	"peer.started", "members.changed", "record.drafted", "record.proposed", "record.certified", "slot.planned",
	"slot.committed", "slot.applied", "slot.stats", "state.synced", "run.switched",
	"peer.suspected", "peer.left", "peer.evicted", "peer.cloned", "peer.objected", "peer.resigned", "peer.refused",
	"peer.removed", standsOut,
}

// running says whether it has a process that does something.
func (p *node) running() bool { return !p.gone && !p.frozen }

// bury notes that its process has ended.
func (p *node) bury() { p.gone, p.frozen, p.status = true, false, p2pdiloco.Status{} }

// back says whether the peer takes part again: it holds the state after slot or a newer one, and it
// is connected to the others. The list of members is not enough, because the others do not miss a
// peer at once.
func (p *node) back(slot uint64) bool {
	there := p.status.Phase == p2pdiloco.PhaseEnded || p.status.Phase == p2pdiloco.PhaseEndedProvisional ||
		p.status.Phase == p2pdiloco.PhaseRunning && p.inTouch()
	return p.running() && there && p.status.Slot >= slot
}

// inTouch says whether it reaches so many members that they and it could decide something.
func (p *node) inTouch() bool {
	reached := 0
	for _, m := range p.status.Members {
		if m.Self || m.Path != nil {
			reached++
		}
	}
	return 2*reached > len(p.status.Members)
}

// members are those of its chain's newest record, as it last said.
func (p *node) members() (ids []string) {
	for _, m := range p.status.Members {
		ids = append(ids, m.Peer.String())
	}
	return ids
}

// misses says whether a peer takes another one for lost, as it last said.
func (p *node) misses(other *node) bool {
	i := slices.Index(p.members(), other.ID)
	return len(p.status.Members) > 0 && (i < 0 || p.status.Members[i].State == "missing")
}

// thaw continues the process if it is stopped.
func (p *node) thaw() {
	if p.frozen {
		p.Signal(syscall.SIGCONT)
	}
	p.frozen = false
}
