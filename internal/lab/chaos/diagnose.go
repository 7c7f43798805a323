package chaos

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
)

// dumpTime is how long processes have for their statuses, and again for writing their goroutines.
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
		path := p.Data + ".status.json"
		_, raw, err := p.Ask(ctx)
		if err == nil {
			err = os.WriteFile(path, raw, 0o644)
		}
		if err != nil {
			path = err.Error()
		}
		r.screen.Note(fmt.Sprintf("what peer %d was doing: %s, and the end of %s", p.n, path, p.Log))
		signal([]*node{p}, syscall.SIGQUIT)
	}
	end := time.After(dumpTime)
	for _, p := range r.nodes {
		if p.gone {
			continue
		}
		select {
		case <-p.Ended:
		case <-end:
			return
		}
	}
}
