package chaos

import (
	"context"
	"time"
)

const (
	askEvery = 250 * time.Millisecond
	chaseAsk = 30 * time.Millisecond // during the search for an idle leader
)

// ask polls the peers' status APIs, each in a goroutine of its own: a stopped peer does not answer.
func (r *runner) ask(ctx context.Context) {
	for len(r.answers) > 0 {
		(<-r.answers)()
	}
	every := askEvery
	if f := r.chasing(); f != nil && f.Phase == PhaseIdle {
		every = chaseAsk
	}
	if time.Since(r.polled) < every {
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
