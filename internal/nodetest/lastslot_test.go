package nodetest

import (
	"context"
	"testing"
	"time"
)

// slowExport is a trainer that exports what it has trained for the last slot when that is applied.
type slowExport struct {
	*Bowl
	peer *Peer
	last uint64
}

func (x *slowExport) Export(ctx context.Context, dst []float32) error {
	for x.peer.Applied() == x.last-1 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return x.Bowl.Export(ctx, dst)
}

// A peer whose inner steps for the last slot are done, and whose export or encoding takes longer
// than the others wait, ends with the last anchor in its trainer, as all others do. It ended with
// what it had trained itself.
func TestAnEndDuringTheExport(t *testing.T) {
	Once(t, 3, 3, func(s *Swarm) {
		slow := s.Peers[1]
		slow.Trainer = &slowExport{slow.Trainer.(*Bowl), slow, 3}
		s.Start(s.Peers...)
		s.Finish(3*time.Minute, s.Peers...) // compares them
	})
}
