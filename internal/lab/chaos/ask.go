package chaos

import (
	"context"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

const (
	askEvery = 250 * time.Millisecond
	chaseAsk = 30 * time.Millisecond // during the search for an idle leader
)

// answer is what came back from a peer's status API.
type answer struct {
	p      *node
	proc   *swarm.Process
	status p2pdiloco.Status
	err    error
}

// polls are the requests to status APIs that are under way.
type polls struct {
	answers chan answer
	running sync.WaitGroup
	last    time.Time
}

// ask polls the peers' status APIs, each in a goroutine of its own: a stopped peer does not answer.
func (r *runner) ask(ctx context.Context) {
	for len(r.polls.answers) > 0 {
		a := <-r.polls.answers
		a.p.asking = false
		if a.err == nil && a.proc == a.p.Process && !a.p.gone {
			a.p.status = a.status
		}
	}
	every := askEvery
	if f := r.chasing(); f != nil && f.Phase == PhaseIdle {
		every = chaseAsk
	}
	if time.Since(r.polls.last) < every {
		return
	}
	r.polls.last = time.Now()
	for _, p := range r.nodes {
		if p.asking || !p.running() {
			continue
		}
		p.asking = true
		proc := p.Process
		r.polls.running.Go(func() {
			s, _, err := p.Ask(ctx)
			// there is room, because a peer has one request at a time
			r.polls.answers <- answer{p, proc, s, err}
		})
	}
}
