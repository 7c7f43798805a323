package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// dumpTime is how long processes have for their statuses, and again for writing their goroutines.
const dumpTime = 3 * time.Second

// diagnose records what each peer was doing: its status in a file, the end of its log on the
// screen, and all its goroutines in its log. It ends the processes.
func (r *runner) diagnose() {
	ctx, cancel := context.WithTimeout(context.Background(), dumpTime)
	defer cancel()
	for _, p := range r.nodes {
		if p.gone {
			r.screen.Note(fmt.Sprintf("peer %d: no process", p.n))
			continue
		}
		text := "no status"
		if !p.frozen {
			text = r.statusOf(ctx, p)
		}
		r.screen.Note(fmt.Sprintf("peer %d (pid %d), slot %d: %s; the end of its log:\n%s", p.n, p.PID(), p.slot, text,
			swarm.Tail(p.Log)))
	}
	end := time.NewTimer(dumpTime)
	defer end.Stop()
	for _, p := range r.nodes {
		if !p.gone {
			p.thaw()
			signal([]*node{p}, syscall.SIGQUIT) // it writes all its goroutines to its log
		}
	}
	for _, p := range r.nodes {
		if p.Process == nil {
			continue
		}
		select {
		case <-p.Ended:
		case <-end.C:
			return
		}
	}
}

// statusOf keeps a peer's status in a file and sums it up.
func (r *runner) statusOf(ctx context.Context, p *node) string {
	s, raw, err := p.Ask(ctx)
	if err != nil {
		return err.Error()
	}
	if err := os.WriteFile(filepath.Join(r.dir, fmt.Sprintf("peer-%d.status.json", p.n)), raw, 0o644); err != nil {
		return err.Error()
	}
	var members []string
	for _, m := range s.Members {
		id := m.Peer.String()
		members = append(members, fmt.Sprintf("%s %s", id[max(0, len(id)-6):], m.State))
	}
	return strings.TrimSpace(fmt.Sprintf("%s, height %d, slot %d, ballot %d, members %s. %s",
		s.Phase, s.Height, s.Slot, s.Ballot, strings.Join(members, ", "), s.Detail))
}
