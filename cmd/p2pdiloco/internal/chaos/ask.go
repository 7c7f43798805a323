package chaos

import (
	"context"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
)

const (
	askEvery   = 250 * time.Millisecond
	chaseAsk   = 30 * time.Millisecond // while an idle leader is looked for
	askTimeout = 2 * time.Second
)

// answer is what came back from a peer's status API.
type answer struct {
	p      *node
	proc   *swarm.Process
	status p2pdiloco.Status
	err    error
}

// ask polls the peers' status APIs, each by a goroutine of its own: who is stopped does not answer.
func (r *runner) ask(ctx context.Context) {
	for len(r.answers) > 0 {
		a := <-r.answers
		a.p.asking = false
		if a.err == nil && a.proc == a.p.proc && !a.p.gone {
			a.p.status = a.status
		}
	}
	every := askEvery
	if f := r.chasing(); f != nil && f.Phase == PhaseIdle {
		every = chaseAsk
	}
	if time.Since(r.askedAt) < every {
		return
	}
	r.askedAt = time.Now()
	for _, p := range r.nodes {
		addr, err := p.address()
		if err != nil || p.asking || !p.running() {
			continue
		}
		p.asking = true
		proc := p.proc
		r.asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			var s p2pdiloco.Status
			_, err := api.Get(ctx, addr, &s)
			r.answers <- answer{p, proc, s, err} // there is room: one question a peer at a time
		})
	}
}
