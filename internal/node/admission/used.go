package admission

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/admission/proof"
)

// Announce tells other peers which tokens have been used, until ctx ends. It does so at once when a
// token is used here, and repeats it, because announcements get lost, above all before a newcomer
// gossips.
func (g *Guard) Announce(ctx context.Context, every time.Duration, publish func(body []byte)) {
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-g.news:
			publish(b)
		case <-again.C:
			if b := g.unsaid(); b != nil {
				publish(b)
			}
		}
	}
}

// Learn takes in what another peer has announced of tokens.
func (g *Guard) Learn(b []byte) {
	used, err := proof.ParseTold(b)
	if err != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.Party.Used.Merge(g.now(), used) {
		g.saveUsed()
	}
	g.mu.said = g.mu.said || g.mu.Party.Used.Within(used)
}

// unsaid returns what other peers should learn of tokens, nil if another peer has just announced
// it.
func (g *Guard) unsaid() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	said := g.mu.said
	g.mu.said = false
	told := g.mu.Party.Used.Told()
	if said || len(told.Used) == 0 {
		return nil
	}
	return told.Append(nil)
}

// saveUsed writes the register. mu is held, which keeps the order of writes. If the disk fails,
// tickets can be used more often than they should, but the peer goes on.
func (g *Guard) saveUsed() {
	files := g.cfg.Files
	err := disk.Replace(files.FS, files.path(usedFile), g.mu.Party.Used.Told().Append(nil))
	if err != nil && !errors.Is(err, os.ErrClosed) {
		g.cfg.Logger.Warn("who used a ticket could not be noted", "err", err)
	}
}

// Used returns what this peer knows of used tokens, as it is announced.
func (g *Guard) Used() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.Party.Used.Told().Append(nil)
}
