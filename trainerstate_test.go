package p2pdiloco

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
	"testing/synctest"
	"time"
)

// keeper is a bowl that can do everything else that a node may ask of a trainer. Its private state is the number of its rounds.
type keeper struct {
	bowl
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
	return &keeper{bowl: bowl{target: target, pace: 10 * time.Millisecond}}
}

func (k *keeper) Init(ctx context.Context, dst []float32) error {
	if k.failsInit {
		return errors.New("no memory on the device")
	}
	return k.bowl.Init(ctx, dst)
}

func (k *keeper) Load(ctx context.Context, anchor []float32) error {
	if k.loaded = true; &anchor[0] != &k.start[0] {
		return errors.New("not the vector that was made for it")
	}
	return k.bowl.Load(ctx, anchor)
}

func (k *keeper) Train(ctx context.Context, task Task) (Stats, error) {
	stats, err := k.bowl.Train(ctx, task)
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
		dst[i] = start[i] - k.x[i]
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

// The trainer's private state is kept at the borders of rounds and at the end, and a restarted peer's trainer finds it again.
func TestTheTrainersOwnStateOutlivesARestart(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(12, 2), 2, func(s *swarm) {
		p, first := s.peers[0], newKeeper(1)
		p.trainer = first
		s.start(s.peers...)
		s.reach(6, p)
		s.stop(p)
		kept, err := os.ReadFile(filepath.Join(p.dir, trainerFile))
		if err != nil || len(kept) != 8 || binary.LittleEndian.Uint64(kept) != 4 {
			t.Fatalf("killed after slot 6, it had kept % x (%v): the state of slot 4 was expected", kept, err)
		}
		second := newKeeper(1)
		p.trainer = second
		p.config = func(cfg *Config) { cfg.CheckpointEvery = 100 }
		p.drive = func(ctx context.Context, n *Node) error {
			n.abrupt = false
			return n.Run(ctx)
		}
		s.start(p)
		s.finish(3*time.Minute, s.peers...)
		if len(second.restored) != 1 || second.restored[0] != 4 || second.rounds < 8 || second.gradients == 0 {
			t.Errorf("restored %v, then did %d rounds and gave %d gradients", second.restored, second.rounds-4, second.gradients)
		}
		if last, err := os.ReadFile(filepath.Join(p.dir, trainerFile)); err != nil || binary.LittleEndian.Uint64(last) != second.rounds {
			t.Errorf("at the end % x is kept (%v) after %d rounds", last, err, second.rounds)
		}
		if len(p.events("trainer.stats")) < 12 {
			t.Errorf("%d times statistics", len(p.events("trainer.stats")))
		}
		for _, e := range p.events("trainer.stats") {
			if _, measured := e.Fields["loss"]; measured || e.Fields["tokens"] != uint64(0) && e.Fields["grad_norm"] != 1.5 {
				t.Errorf("statistics %v", e.Fields)
			}
		}
	})
}

// A state that the trainer refuses is left out, one that it cannot save is missed, and nothing else.
func TestATrainersStateThatIsRefusedIsLeftOut(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(3, 1), 1, func(s *swarm) {
		p, k := s.peers[0], newKeeper(1)
		k.refuses = true
		p.trainer = k
		p.config = func(cfg *Config) { cfg.CheckpointEvery = 1 }
		if err := os.WriteFile(filepath.Join(p.dir, trainerFile), make([]byte, 8), 0o600); err != nil {
			t.Fatal(err)
		}
		s.start(p)
		s.finish(time.Minute, p)
		if k.rounds != 3 || len(k.restored) != 0 || k.saves != 3 {
			t.Errorf("%d rounds, restored %v, %d saves", k.rounds, k.restored, k.saves)
		}
		if _, err := os.Stat(filepath.Join(p.dir, trainerFile+".new")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("half a state is left lying: %v", err)
		}
	})
}

// A large model's state takes minutes to write: it is kept all the same.
func TestALongSaveIsWaitedForBetweenRounds(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(3, 1), 1, func(s *swarm) {
		p, k := s.peers[0], newKeeper(1)
		k.saving = 3 * trainerSaveTime
		p.trainer = k
		p.config = func(cfg *Config) { cfg.CheckpointEvery = 1 }
		s.start(p)
		s.finish(time.Hour, p)
		if kept, err := os.ReadFile(filepath.Join(p.dir, trainerFile)); err != nil || binary.LittleEndian.Uint64(kept) != 3 {
			t.Errorf("after 3 rounds % x is kept: %v", kept, err)
		}
	})
}

// One who leaves does not wait for a save for ever.
func TestTheLastSaveIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		longer, stop := outlast(ctx, trainerSaveTime)
		defer stop()
		if cancel(); longer.Err() != nil {
			t.Error("a save ends as soon as its peer is told to leave")
		}
		began := time.Now()
		if <-longer.Done(); time.Since(began) != trainerSaveTime {
			t.Errorf("the last save may take %v", time.Since(began))
		}
	})
}

// A trainer that cannot make initial parameters ends its node, with the reason, instead of being asked for ever.
func TestInitialParametersThatFail(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(3, 1), 1, func(s *swarm) {
		p, k := s.peers[0], newKeeper(1)
		k.failsInit = true
		p.trainer = k
		s.start(p)
		err := s.outcome(p, time.After(time.Minute))
		var failed *TrainerError
		if !errors.As(err, &failed) || !errors.Is(err, ErrClosed) || err.Error() != "initial parameters: trainer: init: no memory on the device" {
			t.Errorf("got %v", err)
		}
	})
}

// A pseudo-gradient that is not finite is refused, and the tensor named, wherever it comes from.
func TestAGradientThatIsNotFiniteNamesTheTensor(t *testing.T) {
	spoil := func(_ Task, x []float32) { x[bowlElements-1] = float32(math.NaN()) }
	for _, k := range []Trainer{&keeper{bowl: bowl{spoil: spoil}}, &bowl{spoil: spoil}} {
		t.Run(fmt.Sprintf("%T", k), func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(3, 1), 1, func(s *swarm) {
				s.peers[0].trainer = k
				s.start(s.peers[0])
				err := s.outcome(s.peers[0], time.After(time.Minute))
				if !errors.Is(err, ErrNotFinite) || !strings.Contains(err.Error(), `element 4999 of 5000 (tensor "x") is NaN`) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}
