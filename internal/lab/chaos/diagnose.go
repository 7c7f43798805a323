package chaos

import (
	"context"
	"os"
	"syscall"
	"time"
)

// dumpTime is how long processes have for their statuses.
const dumpTime = 3 * time.Second

// diagnose records what each peer was doing: its status in a file, and all its goroutines in its
// log. It ends the processes.
func (r *runner) diagnose() {
	ctx, cancel := context.WithTimeout(context.Background(), dumpTime)
	defer cancel()
	for _, p := range r.nodes {
		if p.gone {
			continue
		}
		p.thaw()
		if _, raw, err := p.Ask(ctx); err == nil {
			_ = os.WriteFile(p.Data+".status.json", raw, 0o644) // the logs are left
		}
		signal([]*node{p}, syscall.SIGQUIT)
	}
}
