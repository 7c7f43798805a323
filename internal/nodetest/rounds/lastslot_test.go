package rounds

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// slowExport is a trainer that exports what it has trained for the last slot when that is applied.
type slowExport struct {
	*nodetest.Bowl
	peer *nodetest.Peer
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
	const last = 3
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(last, 3), 3, func(s *nodetest.Swarm) {
		slow := s.Peers[1]
		bowl := slow.Trainer.(*nodetest.Bowl)
		slow.Trainer = &slowExport{bowl, slow, last}
		s.Start(s.Peers...)
		s.Finish(3*time.Minute, s.Peers...)
		if other := s.Peers[0].Trainer.(*nodetest.Bowl).X; !slices.Equal(bowl.X, other) {
			t.Errorf("it ends with %v…, the others with %v…", bowl.X[:3], other[:3])
		}
	})
}
