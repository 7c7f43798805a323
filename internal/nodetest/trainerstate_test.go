package nodetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// keeper is a bowl that can do everything else that a node may ask of a trainer. Its private state
// is the number of its rounds.
type keeper struct {
	Bowl
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
	return &keeper{Bowl: Bowl{Target: target, Pace: 10 * time.Millisecond}}
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

// The trainer's private state goes with the anchor that its peer goes on from: whenever a peer is
// killed, its trainer has done at the end what it has done where nobody is killed. No checkpoint is
// made meanwhile.
func TestTheTrainersOwnStateOutlivesARestart(t *testing.T) {
	inTraining := func(s *Swarm, p *Peer) {
		s.Start(s.Peers...)
		s.Reach(6, p)
		s.Stop(p)
	}
	atTheBorder := func(s *Swarm, p *Peer) {
		p.OnEvent = func(e p2pdiloco.Event) {
			if e.Name == "slot.applied" && e.Fields["slot"] == uint64(6) {
				p.Cancel()
			}
		}
		s.Start(s.Peers...)
		_ = s.Outcome(p, time.After(time.Minute))
		p.OnEvent = nil
	}
	for name, kill := range map[string]func(*Swarm, *Peer){
		"in training": inTraining, "at the border": atTheBorder,
	} {
		t.Run(name, func(t *testing.T) {
			Once(t, 12, 2, func(s *Swarm) {
				trainsOn(s, kill)
			})
		})
	}
}

func trainsOn(s *Swarm, kill func(*Swarm, *Peer)) {
	p := s.Peers[0]
	p.Trainer = newKeeper(1)
	p.Config = func(cfg *p2pdiloco.Config) { cfg.CheckpointEvery = 100 }
	kill(s, p)
	second := newKeeper(1)
	p.Trainer, p.Graceful = second, true
	s.Start(p)
	s.Finish(3*time.Minute, s.Peers...)
	if len(second.restored) != 1 || second.restored[0] != 6 || second.rounds != 12 || second.gradients == 0 {
		s.T.Errorf("killed after slot 6, it restored %v rounds, and then had done %d of 12 and gave %d gradients",
			second.restored, second.rounds, second.gradients)
	}
	if said := resumed(p); said != "went on at step 120 of 240 (slot 7); optimizer kept" {
		s.T.Errorf("it says %s", said)
	}
	if len(p.Events("trainer.stats")) < 12 {
		s.T.Errorf("%d times statistics", len(p.Events("trainer.stats")))
	}
	for _, e := range p.Events("trainer.stats") {
		if _, measured := e.Fields["loss"]; measured || e.Fields["tokens"] != uint64(0) &&
			e.Fields["grad_norm"] != 1.5 {
			s.T.Errorf("statistics %v", e.Fields)
		}
	}
}

// alone runs a single peer with a keeper that prepare has changed, and returns how it ended.
func alone(t *testing.T, slots uint64, prepare func(p *Peer, k *keeper), then func(p *Peer, k *keeper, ended error)) {
	Once(t, slots, 1, func(s *Swarm) {
		p, k := s.Peers[0], newKeeper(1)
		p.Trainer = k
		prepare(p, k)
		s.Start(p)
		then(p, k, s.Outcome(p, time.After(time.Hour)))
	})
}

// resumed returns what a peer says of its trainer's state.
func resumed(p *Peer) string {
	said := p.Events("trainer.resumed")
	if len(said) != 1 {
		return fmt.Sprint(said)
	}
	return said[0].Fields["detail"].(string)
}

// saved are the states that a peer keeps, by the names of their files.
func saved(t *testing.T, p *Peer) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(filepath.Join(p.Dir, "trainer.state"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return all
}

// Two states are kept, and the one before them until the next is whole.
func TestTwoStatesOfATrainerAreKept(t *testing.T) {
	alone(t, 5, func(*Peer, *keeper) {}, func(p *Peer, _ *keeper, ended error) {
		var rounds []uint64
		for name, b := range saved(t, p) {
			if !strings.Contains(name, "next") {
				rounds = append(rounds, binary.LittleEndian.Uint64(b))
			}
		}
		if slices.Sort(rounds); !slices.Equal(rounds, []uint64{2, 3, 4}) || ended != nil {
			t.Errorf("the states before rounds %v are kept: %v", rounds, ended)
		}
		if said := resumed(p); said != "[]" {
			t.Errorf("it says %s, and there was no state", said)
		}
	})
}

// A state that the trainer refuses is left out, one that it cannot save is missed, and nothing
// else.
func TestATrainersStateThatIsRefusedIsLeftOut(t *testing.T) {
	alone(t, 3, func(p *Peer, k *keeper) {
		k.refuses = true
		folder := filepath.Join(p.Dir, "trainer.state", "1-0-0-1-aa")
		if err := errors.Join(os.MkdirAll(folder, 0o700),
			os.WriteFile(filepath.Join(folder, "rank-0"), make([]byte, 8), 0o600)); err != nil {
			t.Fatal(err)
		}
	}, func(p *Peer, k *keeper, ended error) {
		if k.rounds != 3 || len(k.restored) != 0 || k.saves != 3 || ended != nil {
			t.Errorf("%d rounds, restored %v, %d saves: %v", k.rounds, k.restored, k.saves, ended)
		}
		if all := saved(t, p); len(all) != 1 {
			t.Errorf("half a state is left lying, or the last one is gone: %v", all)
		}
		if said := resumed(p); !strings.Contains(said, "; the optimizer begins anew: 8 bytes, after a load: false") {
			t.Errorf("it says %s", said)
		}
	})
}

// A large model's state takes minutes to write: it is kept all the same, and not in each round.
func TestALongSaveIsWaitedForBetweenRounds(t *testing.T) {
	alone(t, 3, func(_ *Peer, k *keeper) { k.saving = 3 * time.Minute }, func(p *Peer, _ *keeper, ended error) {
		if all := saved(t, p); len(all) != 1 || ended != nil {
			t.Errorf("after 3 rounds %v are kept: %v", all, ended)
		}
	})
}

// A trainer that cannot make initial parameters ends its node, with the reason, instead of being
// asked for ever.
func TestInitialParametersThatFail(t *testing.T) {
	alone(t, 3, func(_ *Peer, k *keeper) { k.failsInit = true }, func(_ *Peer, _ *keeper, ended error) {
		var failed *p2pdiloco.TrainerError
		if !errors.As(ended, &failed) || !errors.Is(ended, p2pdiloco.ErrClosed) ||
			ended.Error() != "initial parameters: trainer: init: no memory on the device" {
			t.Errorf("got %v", ended)
		}
	})
}

// A pseudo-gradient that is not finite is refused, and the tensor named, wherever it comes from.
func TestAGradientThatIsNotFiniteNamesTheTensor(t *testing.T) {
	spoil := func(_ p2pdiloco.Task, x []float32) { x[BowlElements-1] = float32(math.NaN()) }
	for name, gradient := range map[string]bool{"the node's": false, "the trainer's": true} {
		t.Run(name, func(t *testing.T) {
			alone(t, 3, func(p *Peer, k *keeper) {
				if k.Spoil = spoil; !gradient {
					p.Trainer = &Bowl{Spoil: spoil}
				}
			}, func(_ *Peer, _ *keeper, ended error) {
				if !errors.Is(ended, p2pdiloco.ErrNotFinite) ||
					!strings.Contains(ended.Error(), `element 4999 of 5000 (tensor "x") is NaN`) {
					t.Errorf("got %v", ended)
				}
			})
		})
	}
}
