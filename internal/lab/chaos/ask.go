package chaos

import (
	"context"
	"time"
)

const askEvery = 250 * time.Millisecond

// ask polls the peers' status APIs, each in a goroutine of its own: a stopped peer does not answer.
func (r *runner) ask(ctx context.Context) {
	for len(r.answers) > 0 {
		(<-r.answers)()
	}
	if time.Since(r.polled) < askEvery {
		return
	}
	r.polled = time.Now()
	for _, p := range r.nodes {
		if p.asking || !p.running() {
			continue
		}
		p.asking = true
		proc := p.Process
		r.polls.Go(func() {
			s, _, err := p.Ask(ctx)
			// there is room, because a peer has one request at a time
			r.answers <- func() {
				if p.asking = false; err == nil && proc == p.Process && !p.gone {
					p.status = s
				}
			}
		})
	}
}
