package cli

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
)

// gatePoll is how often a trainer that waits at its gate looks again.
const gatePoll = 20 * time.Millisecond

// paced is the built-in trainer, slowed down for tests and for chaos, which has to catch the phases
// of a slot, and the return of all peers before the run ends.
type paced struct {
	*builtin.Trainer
	pause time.Duration // after each round of inner steps
	// path of a file with the newest slot that may be trained for; empty: no limit
	gate string
}

// Train implements p2pdiloco.Trainer.
func (p *paced) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	if err := p.pass(ctx, task.Slot); err != nil {
		return p2pdiloco.Stats{}, err
	}
	stats, err := p.Trainer.Train(ctx, task)
	if err != nil {
		return stats, err
	}
	return stats, rest(ctx, p.pause)
}

// pass waits until the gate admits a slot. A gate file that is missing admits none.
func (p *paced) pass(ctx context.Context, slot uint64) error {
	for p.gate != "" {
		b, err := os.ReadFile(p.gate)
		last, parsed := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		switch {
		case err == nil && parsed != nil:
			return fmt.Errorf("--gate: %w: write the number of a slot to %s", parsed, p.gate)
		case err == nil && slot <= last:
			return nil
		}
		if err := rest(ctx, gatePoll); err != nil {
			return err
		}
	}
	return nil
}

// rest waits for d, or returns the error of a context that ended before.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
