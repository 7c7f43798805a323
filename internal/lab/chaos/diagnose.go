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

// diagnose records what each peer was doing: its status in a file, the end of its log in the file
// diagnosis, and all its goroutines in its log. It ends the processes.
func (r *runner) diagnose() error {
	ctx, cancel := context.WithTimeout(context.Background(), dumpTime)
	defer cancel()
	var b strings.Builder
	for _, p := range r.nodes {
		if p.gone {
			fmt.Fprintf(&b, "peer %d: no process\n", p.n)
			continue
		}
		p.thaw()
		if s, raw, err := p.Ask(ctx); err != nil {
			fmt.Fprintf(&b, "peer %d: %v\n", p.n, err)
		} else {
			fmt.Fprintf(&b, "peer %d: %s, height %d, slot %d. %s\n", p.n, s.Phase, s.Height, s.Slot, s.Detail)
			if err := os.WriteFile(p.Data+".status.json", raw, 0o644); err != nil {
				return err
			}
		}
		fmt.Fprintf(&b, "the end of its log:\n%s\n", swarm.Tail(p.Log))
		signal([]*node{p}, syscall.SIGQUIT) // it writes all its goroutines to its log
	}
	end, stop := context.WithTimeout(context.Background(), dumpTime)
	defer stop()
	for _, p := range r.nodes {
		if p.Process == nil {
			continue
		}
		select {
		case <-p.Ended:
		case <-end.Done():
		}
	}
	path := filepath.Join(r.dir, "diagnosis")
	r.screen.Note("what each peer was doing: " + path)
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
