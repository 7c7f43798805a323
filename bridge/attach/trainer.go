package attach

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/internal/node/round"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// What ends the node's Run because of the trainer.
var (
	// ErrLeave says that the trainer wants the peer to leave the run.
	ErrLeave = errors.New("the peer is to leave the run")
	// ErrNoReturn says that the trainer is gone, and that Config.Return has passed.
	ErrNoReturn = errors.New("no trainer has attached again")
)

// giveUpTime is how long Train waits for ranks that are to give up their steps. Longer steps end by
// themselves, and the next request waits for them.
const giveUpTime = 5 * time.Second

// Trainer is the ranks as a node's trainer. Its methods are for one goroutine at a time, as a node
// calls them.
type Trainer struct {
	loop   *loop
	layout trainer.Layout
	start  []float32 // the node's two vectors, which the ranks map
	local  []float32

	streams  bool  // mode streaming: Train exports nothing
	exported bool  // local has the pseudo-gradient of the last Train
	pending  *call // that its caller did not wait for
	fresh    bool  // the set was not told of any private state yet
	private  round.PrivateState
}

var _ interface {
	trainer.Trainer
	trainer.Evaluator
	trainer.Sampler
	trainer.StateKeeper
	trainer.GradientExporter
	trainer.VectorMaker
	trainer.MemorySharer
	trainer.RangeTrainer
	trainer.Returner
	trainer.RangeGradientExporter
} = (*Trainer)(nil)

// Trainer waits until all ranks of a trainer are there, and the memory is shared with them.
func (s *Server) Trainer(ctx context.Context) (*Trainer, error) {
	dir, err := filepath.Abs(filepath.Join(s.cfg.DataDir, stateDir))
	if err != nil {
		return nil, err
	}
	t := &Trainer{loop: s.loop, private: round.PrivateState{Dir: dir}}
	if err := t.await(ctx); err != nil {
		return nil, err
	}
	m := &s.loop.memory // what is read of it stays as it is
	t.layout = m.layout
	d := t.layout.Elements()
	t.start, t.local = m.start.Vector(d), m.local.Vector(d)
	return t, nil
}

// await waits for a set, and has the node work in its memory.
func (t *Trainer) await(ctx context.Context) error {
	for {
		again, err := t.loop.adopt()
		if err != nil {
			return err
		}
		if again == nil {
			t.pending, t.fresh, t.private.Asked = nil, true, round.SavedState{}
			return nil
		}
		select {
		case <-again:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Return waits for the next set, for Config.Return from the loss of the last one. A set whose
// pseudo-gradient is not finite is sent away first.
func (t *Trainer) Return(ctx context.Context, why error) error {
	t.loop.do(func() todo {
		if errors.Is(why, trainer.ErrNotFinite) {
			return t.loop.box.Dismiss(Fault{Code: wire.CodeNotFinite, Text: why.Error()})
		}
		return nil
	})
	return t.await(ctx)
}

// Joined tells the ranks, and all that come later, which run this is.
func (t *Trainer) Joined(info wire.Info) {
	t.streams = info.Mode == "streaming"
	t.loop.do(func() todo { return t.loop.box.Know(info) })
}

// Layout is the model's tensors in flat order.
func (t *Trainer) Layout() trainer.Layout { return t.layout }

// MakeVectors returns the vectors that the ranks map, too.
func (t *Trainer) MakeVectors(n int) (start, local []float32, err error) {
	if n != len(t.start) {
		return nil, nil, fmt.Errorf("vectors of %d elements for a model of %d", n, len(t.start))
	}
	return t.start, t.local, nil
}

// SharedBytes is the memory that is shared with the ranks: start and local, and another local while
// a new set has it and the node works in the last one's.
func (t *Trainer) SharedBytes() uint64 { return t.loop.memory.bytes.Load() }

// Init asks the ranks for the initial parameters. If they are lost meanwhile, it asks the next
// ones.
func (t *Trainer) Init(ctx context.Context, dst []float32) error {
	for {
		_, err := t.ask(ctx, &wire.Fill{})
		if err == nil {
			t.copyOut(dst, 0)
		}
		if !errors.Is(err, trainer.ErrAnew) {
			return err
		}
		if err := t.Return(ctx, err); err != nil {
			return err
		}
	}
}

// Load has the ranks replace their parameters by start.
func (t *Trainer) Load(ctx context.Context, start []float32) error { return t.LoadRange(ctx, 0, start) }

// LoadRange has the ranks replace a part of their parameters by that of start.
func (t *Trainer) LoadRange(ctx context.Context, begin int, src []float32) error {
	if err := t.handBack(ctx); err != nil {
		return err
	}
	if !same(src, t.start[begin:begin+len(src)]) {
		if err := t.settle(ctx); err != nil {
			return err
		}
		copy(t.start[begin:], src)
	}
	_, err := t.ask(ctx, &wire.Load{
		Begin: uint64(begin), End: uint64(begin + len(src)), Generation: t.loop.memory.start.Word(loadsWord).Add(1),
	})
	return err
}

// Evaluate is the held-out loss of the lowest rank that measures it.
func (t *Trainer) Evaluate(ctx context.Context) (float64, error) {
	d, err := t.evaluate(ctx, "")
	return d.Loss, err
}

// Sample is what the lowest rank makes of a prompt that makes anything of it.
func (t *Trainer) Sample(ctx context.Context, prompt string) (string, error) {
	d, err := t.evaluate(ctx, prompt)
	return d.Text, err
}

func (t *Trainer) evaluate(ctx context.Context, prompt string) (none wire.Done, err error) {
	answers, err := t.ask(ctx, &wire.Evaluate{Prompt: prompt})
	if err != nil {
		return none, err
	}
	for _, a := range answers {
		if d := a.(*wire.Done); d.Status == wire.StatusOK && (prompt == "" || d.Text != "") {
			return *d, nil
		}
	}
	return none, errors.ErrUnsupported
}

// Train has the ranks do inner steps. When ctx ends, all of them give up at one step.
func (t *Trainer) Train(ctx context.Context, task trainer.Task) (trainer.Stats, error) {
	m := &wire.Train{
		Slot: task.Slot, Steps: uint64(task.Steps), Export: wire.ExportGradient, Seed: task.Seed,
		Member: uint64(max(0, slices.Index(task.Members, task.Self))), Members: uint64(len(task.Members)),
		Part: task.Part, PartSteps: uint64(task.PartSteps), PartDone: task.Done, Delay: uint64(task.Delay),
		MemberIDs: lines(task.Members), Save: t.due(), Step: task.Step, TotalSteps: task.TotalSteps,
	}
	if t.streams {
		m.Export = wire.ExportNothing
	}
	if err := t.settle(ctx); err != nil {
		return trainer.Stats{}, err
	}
	t.exported = false
	c := t.begin(m)
	ticker := time.Tick(beat)
	for ended := false; !ended; {
		select {
		case <-c.done:
			ended = true
		case <-ticker: // what all ranks have done
			task.Report(int(min(slices.Min(t.loop.memory.steps()), uint64(task.Steps))))
		case <-ctx.Done():
			t.giveUp(c)
			return trainer.Stats{}, ctx.Err()
		}
	}
	t.pending = nil
	if c.err != nil {
		return trainer.Stats{}, c.err
	}
	t.exported = m.Export == wire.ExportGradient
	stats := sum(c.answers)
	task.Report(stats.Steps)
	return stats, nil
}

// lines has each ID in a line, as text.
func lines(ids []trainer.PeerID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return strings.Join(texts, "\n")
}

// giveUp has the ranks end their steps, and waits for that, but not for long.
func (t *Trainer) giveUp(c *call) {
	t.loop.do(func() todo {
		t.loop.box.GiveUp(c.id)
		return nil
	})
	select {
	case <-c.done:
	case <-time.After(giveUpTime):
	}
}

// sum is what all ranks have done together. A rank's figure that is no number, as of a step that
// loss scaling skipped, is left out. Where no rank has a loss, it is NaN.
func sum(answers []wire.Message) (s trainer.Stats) {
	weights := 0.0
	for _, a := range answers {
		o := a.(*wire.Offer)
		s.Steps = int(o.Steps)
		s.Samples += o.Samples
		s.Tokens += o.Tokens
		s.Elapsed = max(s.Elapsed, time.Duration(finite(o.Seconds)*float64(time.Second)))
		s.GradNorm = max(s.GradNorm, finite(o.GradNorm))
		if o.Loss == finite(o.Loss) {
			weight := max(float64(o.Tokens), 1e-9) // a rank that shares its data has none
			s.Loss, weights = s.Loss+o.Loss*weight, weights+weight
		}
	}
	s.Loss /= weights
	return s
}

// finite returns a figure, or 0 if it is no number.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// settle waits for a request that its caller did not wait for.
func (t *Trainer) settle(ctx context.Context) error {
	if t.pending == nil {
		return nil
	}
	select {
	case <-t.pending.done:
		t.pending = nil
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask has all ranks do something, and waits for their answers.
func (t *Trainer) ask(ctx context.Context, m wire.Message) ([]wire.Message, error) {
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	c := t.begin(m)
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	return c.answers, errors.Join(c.err, t.failed(c.answers))
}

func (t *Trainer) begin(m wire.Message) *call {
	t.pending = t.loop.ask(m)
	return t.pending
}

// failed is what ranks could not do. They can be used further.
func (t *Trainer) failed(answers []wire.Message) error {
	for rank, a := range answers {
		if d, ok := a.(*wire.Done); ok && d.Status == wire.StatusFailed {
			return fmt.Errorf("rank %d of %d: %s", rank, len(answers), d.Text)
		}
	}
	return nil
}
