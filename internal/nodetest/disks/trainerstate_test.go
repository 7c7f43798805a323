package disks

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// keeper is a bowl that can do everything else that a node may ask of a trainer. Its private state
// is the number of its rounds.
type keeper struct {
	nodetest.Bowl
	rounds       uint64
	start, local []float32 // made for the node
	restored     []uint64  // what Restore read, each time
	loaded       bool
	refuses      bool
	saves        int // that failed
	failsInit    bool
	saving       time.Duration // a Save takes
	gradients    int
}

func newKeeper(target float32) *keeper {
	return &keeper{Bowl: nodetest.Bowl{Target: target, Pace: 10 * time.Millisecond}}
}

func (k *keeper) Init(ctx context.Context, dst []float32) error {
	if k.failsInit {
		return errors.New("no memory on the device")
	}
	return k.Bowl.Init(ctx, dst)
}

func (k *keeper) Load(ctx context.Context, anchor []float32) error {
	if k.loaded = true; &anchor[0] != &k.start[0] {
		return errors.New("not the vector that was made for it")
	}
	return k.Bowl.Load(ctx, anchor)
}

func (k *keeper) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	stats, err := k.Bowl.Train(ctx, task)
	k.rounds++
	stats.GradNorm = 1.5
	return stats, err
}

func (k *keeper) MakeVectors(n int) (start, local []float32, err error) {
	k.start, k.local = make([]float32, n), make([]float32, n)
	return k.start, k.local, nil
}

func (k *keeper) ExportGradient(_ context.Context, start, dst []float32, ready func(begin, end int) error) error {
	k.gradients++
	if &start[0] != &k.start[0] || &dst[0] != &k.local[0] {
		return errors.New("not the vectors that were made for it")
	}
	half := len(dst) / 2
	for i := range dst {
		dst[i] = start[i] - k.X[i]
	}
	return errors.Join(ready(0, half), ready(half, len(dst)))
}

func (k *keeper) Evaluate(context.Context) (float64, error) { return 0, errors.ErrUnsupported }

func (k *keeper) Save(ctx context.Context, path string) error {
	select {
	case <-time.After(k.saving):
	case <-ctx.Done():
		return ctx.Err()
	}
	if k.refuses {
		k.saves++
		return errors.Join(os.WriteFile(path, make([]byte, 3), 0o600), errors.New("the disk is full"))
	}
	return os.WriteFile(path, binary.LittleEndian.AppendUint64(nil, k.rounds), 0o600)
}

func (k *keeper) Restore(_ context.Context, path string) error {
	b, err := os.ReadFile(path)
	if err != nil || len(b) != 8 || k.refuses || k.loaded {
		return fmt.Errorf("%d bytes, after a load: %v, %w", len(b), k.loaded, err)
	}
	k.rounds = binary.LittleEndian.Uint64(b)
	k.restored = append(k.restored, k.rounds)
	return nil
}

// The trainer's private state is kept at the borders of rounds and at the end, and a restarted
// peer's trainer finds it again.
func TestTheTrainersOwnStateOutlivesARestart(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(12, 2), 2, func(s *nodetest.Swarm) {
		p, first := s.Peers[0], newKeeper(1)
		p.Trainer = first
		s.Start(s.Peers...)
		s.Reach(6, p)
		s.Stop(p)
		kept, err := os.ReadFile(filepath.Join(p.Dir, "trainer.state"))
		if err != nil || len(kept) != 8 || binary.LittleEndian.Uint64(kept) != 6 {
			t.Fatalf("killed after slot 6, it had kept % x (%v): the state of that slot was expected", kept, err)
		}
		second := newKeeper(1)
		p.Trainer = second
		p.Config = func(cfg *p2pdiloco.Config) { cfg.CheckpointEvery = 100 }
		p.Graceful = true
		s.Start(p)
		s.Finish(3*time.Minute, s.Peers...)
		if len(second.restored) != 1 || second.restored[0] != 6 || second.rounds < 10 || second.gradients == 0 {
			t.Errorf("restored %v, then did %d rounds and gave %d gradients", second.restored, second.rounds-6,
				second.gradients)
		}
		if last, err := os.ReadFile(filepath.Join(p.Dir, "trainer.state")); err != nil ||
			binary.LittleEndian.Uint64(last) != second.rounds {
			t.Errorf("at the end % x is kept (%v) after %d rounds", last, err, second.rounds)
		}
		if len(p.Events("trainer.stats")) < 12 {
			t.Errorf("%d times statistics", len(p.Events("trainer.stats")))
		}
		for _, e := range p.Events("trainer.stats") {
			if _, measured := e.Fields["loss"]; measured || e.Fields["tokens"] != uint64(0) &&
				e.Fields["grad_norm"] != 1.5 {
				t.Errorf("statistics %v", e.Fields)
			}
		}
	})
}

// A state that the trainer refuses is left out, one that it cannot save is missed, and nothing
// else.
func TestATrainersStateThatIsRefusedIsLeftOut(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(3, 1), 1, func(s *nodetest.Swarm) {
		p, k := s.Peers[0], newKeeper(1)
		k.refuses = true
		p.Trainer = k
		p.Config = func(cfg *p2pdiloco.Config) { cfg.CheckpointEvery = 1 }
		if err := os.WriteFile(filepath.Join(p.Dir, "trainer.state"), make([]byte, 8), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Start(p)
		s.Finish(time.Minute, p)
		if k.rounds != 3 || len(k.restored) != 0 || k.saves != 3 {
			t.Errorf("%d rounds, restored %v, %d saves", k.rounds, k.restored, k.saves)
		}
		if _, err := os.Stat(filepath.Join(p.Dir, "trainer.state"+".new")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("half a state is left lying: %v", err)
		}
	})
}

// A large model's state takes minutes to write: it is kept all the same, and not in each round.
func TestALongSaveIsWaitedForBetweenRounds(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(3, 1), 1, func(s *nodetest.Swarm) {
		p, k := s.Peers[0], newKeeper(1)
		k.saving = 3 * time.Minute // thrice what the last save may take
		p.Trainer = k
		s.Start(p)
		s.Finish(time.Hour, p)
		if kept, err := os.ReadFile(filepath.Join(p.Dir, "trainer.state")); err != nil ||
			binary.LittleEndian.Uint64(kept) != 1 {
			t.Errorf("after the first round % x is kept: %v", kept, err)
		}
	})
}

// A trainer that cannot make initial parameters ends its node, with the reason, instead of being
// asked for ever.
func TestInitialParametersThatFail(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(3, 1), 1, func(s *nodetest.Swarm) {
		p, k := s.Peers[0], newKeeper(1)
		k.failsInit = true
		p.Trainer = k
		s.Start(p)
		err := s.Outcome(p, time.After(time.Minute))
		var failed *p2pdiloco.TrainerError
		if !errors.As(err, &failed) || !errors.Is(err, p2pdiloco.ErrClosed) ||
			err.Error() != "initial parameters: trainer: init: no memory on the device" {
			t.Errorf("got %v", err)
		}
	})
}

// A pseudo-gradient that is not finite is refused, and the tensor named, wherever it comes from.
func TestAGradientThatIsNotFiniteNamesTheTensor(t *testing.T) {
	spoil := func(_ p2pdiloco.Task, x []float32) { x[nodetest.BowlElements-1] = float32(math.NaN()) }
	for _, k := range []p2pdiloco.Trainer{&keeper{Bowl: nodetest.Bowl{Spoil: spoil}}, &nodetest.Bowl{Spoil: spoil}} {
		t.Run(fmt.Sprintf("%T", k), func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(3, 1), 1, func(s *nodetest.Swarm) {
				s.Peers[0].Trainer = k
				s.Start(s.Peers[0])
				err := s.Outcome(s.Peers[0], time.After(time.Minute))
				if !errors.Is(err, p2pdiloco.ErrNotFinite) ||
					!strings.Contains(err.Error(), `element 4999 of 5000 (tensor "x") is NaN`) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}
