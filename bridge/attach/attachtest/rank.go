//go:build unix

package attachtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Rank is one rank of a trainer. Its model is the Trainer's; of that, only the pieces count.
type Rank struct {
	Trainer       trainer.Trainer
	Number, World uint64
	Set           string
	RunName       string       // name of the run; empty: any
	Pieces        []wire.Piece // nil: each tensor whole
	Version       uint64       // 0: this release's
	OnWelcome     func()
	OnStep        func(steps uint64)
	OnLoad        func(start []float32, generation uint64)

	NodePID uint64 // of WELCOME
	Writes  []byte // of SHARE, once attached
	Notices []wire.Notice
	Loads   []wire.Load

	socket *net.UnixConn
	last   uint64
	mapped [2][]byte
	start  []float32
	local  []float32
	live   []float32 // scratch
}

// Run attaches and trains, until the node ends it, with *Ended, or ctx ends.
func (r *Rank) Run(ctx context.Context, path string) error {
	if err := r.Attach(path); err != nil {
		return err
	}
	defer r.Close()
	stop := context.AfterFunc(ctx, func() { _ = r.socket.Close() })
	defer stop()
	for {
		m, id, err := r.Border(ctx)
		if err != nil {
			return err
		}
		if err := r.train(ctx, id, m); err != nil {
			return err
		}
	}
}

// Attach connects, and shares the memory. When it returns, all ranks of the set are there.
func (r *Rank) Attach(path string) error {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	r.socket = c
	if err := r.greet(); err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

func (r *Rank) greet() error {
	hello := &wire.Hello{
		Version: cmp.Or(r.Version, wire.Version), Rank: r.Number, World: r.World, Set: r.Set, Run: r.RunName,
		Client: "go test",
	}
	if _, ok := r.Trainer.(trainer.Saver); ok {
		hello.Saves = 1
	}
	m, _, err := r.ask(hello)
	if err != nil {
		return err
	}
	r.NodePID = m.(*wire.Welcome).PID
	if r.OnWelcome != nil {
		r.OnWelcome()
	}
	layout := r.Layout()
	m, files, err := r.ask(layout)
	if err != nil {
		return err
	}
	share, ok := m.(*wire.Share)
	if !ok || len(files) != 2 || len(share.Writes) != len(layout.Pieces) {
		return fmt.Errorf("%v with %d descriptors instead of SHARE with 2", wire.TypeOf(m), len(files))
	}
	return r.share(share, files)
}

// Layout is what the rank declares.
func (r *Rank) Layout() *wire.Layout {
	m := new(wire.Layout)
	for i, t := range r.Trainer.Layout() {
		m.Tensors = append(m.Tensors, wire.Tensor{Tensor: t, DType: wire.F32})
		if r.Pieces == nil {
			whole := wire.Piece{Tensor: uint64(i), Offsets: make([]uint64, len(t.Shape)), Extents: t.Shape}
			m.Pieces = append(m.Pieces, whole)
		}
	}
	if r.Pieces != nil {
		m.Pieces = r.Pieces
	}
	return m
}

// share maps the memory.
func (r *Rank) share(m *wire.Share, files []int) (err error) {
	for i, protection := range []int{unix.PROT_READ, unix.PROT_READ | unix.PROT_WRITE} {
		r.mapped[i], err = unix.Mmap(files[i], 0, int(m.Size), protection, unix.MAP_SHARED)
		_ = unix.Close(files[i])
		if err != nil {
			return err
		}
	}
	vector := func(b []byte) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(&b[m.Offset])), m.Elements) }
	r.start, r.local, r.Writes = vector(r.mapped[0]), vector(r.mapped[1]), m.Writes
	r.live = make([]float32, m.Elements)
	return nil
}

// Local is what the rank exports, for tests that write where they must not.
func (r *Rank) Local() []float32 { return r.local }

// Border does what the node asks, until it asks for inner steps.
func (r *Rank) Border(ctx context.Context) (*wire.Train, uint64, error) {
	for {
		m, id, _, err := r.receive()
		if err != nil {
			return nil, 0, err
		}
		switch m := m.(type) {
		case *wire.Train:
			return m, id, nil
		case *wire.Notice:
			r.Notices = append(r.Notices, *m)
		case *wire.Info:
		default:
			if err := r.send(id, r.do(ctx, m)); err != nil {
				return nil, 0, r.lastWord(err)
			}
		}
	}
}

// do is the answer to a request.
func (r *Rank) do(ctx context.Context, m wire.Message) *wire.Done {
	answer := new(wire.Done)
	var err error
	switch m := m.(type) {
	case *wire.Fill:
		if err = r.Trainer.Init(ctx, r.live); err == nil {
			r.write(0, uint64(len(r.local)), r.live)
		}
	case *wire.Load:
		err = r.load(ctx, m)
	case *wire.Export:
		if err = r.Trainer.Export(ctx, r.live); err == nil {
			r.export(m.Begin, m.End, m.Kind)
		}
	case *wire.Evaluate:
		e, measures := r.Trainer.(trainer.Evaluator)
		s, samples := r.Trainer.(trainer.Sampler)
		switch {
		case m.Prompt != "" && samples:
			answer.Text, err = s.Sample(ctx, m.Prompt)
		case measures: // of a prompt, too: an older client does not know of any
			answer.Loss, err = e.Evaluate(ctx)
		default:
			err = errors.ErrUnsupported
		}
	case *wire.Restore:
		if m.Folder != "" {
			err = r.private(ctx, m.Folder, trainer.Saver.Restore)
		}
	default:
		err = errors.ErrUnsupported
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		answer.Status = wire.StatusUnsupported
	case err != nil:
		answer.Status, answer.Text = wire.StatusFailed, err.Error()
	}
	return answer
}

// private saves or restores the rank's own state.
func (r *Rank) private(ctx context.Context, folder string, f func(trainer.Saver, context.Context, string) error) error {
	s, ok := r.Trainer.(trainer.Saver)
	if !ok {
		return errors.ErrUnsupported
	}
	return f(s, ctx, filepath.Join(folder, fmt.Sprintf("rank-%d", r.Number)))
}

// load takes a part of start over the live parameters. A rank of several takes what it does not
// hold, too: that is never exported.
func (r *Rank) load(ctx context.Context, m *wire.Load) error {
	r.Loads = append(r.Loads, *m)
	if r.OnLoad != nil {
		defer func() { r.OnLoad(r.start, m.Generation) }()
	}
	if err := r.Trainer.Export(ctx, r.live); err != nil {
		return err
	}
	copy(r.live[m.Begin:m.End], r.start[m.Begin:m.End])
	return r.Trainer.Load(ctx, r.live)
}

// export writes what live has to local.
func (r *Rank) export(begin, end, kind uint64) {
	if kind == wire.ExportGradient {
		for i := begin; i < end; i++ {
			r.live[i] = r.start[i] - r.live[i]
		}
	}
	r.write(begin, end, r.live)
}

// write copies the pieces that this rank writes, where they lie in a range.
func (r *Rank) write(begin, end uint64, from []float32) {
	layout := r.Trainer.Layout()
	for i, p := range r.Layout().Pieces {
		t, first := layout[p.Tensor], layout[:p.Tensor].Elements()
		for at := max(begin, first); r.Writes[i] == 1 && at < min(end, first+t.Elements()); at++ {
			if holds(t, p, at-first) {
				r.local[at] = from[at]
			}
		}
	}
}

// train does the inner steps of a TRAIN, with a question at every look, and offers.
func (r *Rank) train(ctx context.Context, id uint64, m *wire.Train) error {
	task := trainer.Task{
		Slot: m.Slot, Steps: int(m.Steps), Delay: int(m.Delay), Seed: m.Seed, Part: m.Part, PartSteps: int(m.PartSteps),
		Done: m.PartDone,
	}
	done, look, gaveUp := uint64(0), m.Look, false
	stats := trainer.Stats{}
	if m.Save != "" {
		if err := r.private(ctx, m.Save, trainer.Saver.Save); err != nil {
			err = os.WriteFile(filepath.Join(m.Save, fmt.Sprintf("rank-%d", r.Number)), nil, 0o600)
			if err != nil {
				return err
			}
		}
	}
	for done < m.Steps && !gaveUp {
		before, until := done, cmp.Or(look, m.Steps)
		piece := task.Piece(int(done), int(until))
		piece.Progress = func(steps int) { r.step(before + uint64(steps)) }
		more, err := r.Trainer.Train(ctx, piece)
		if err != nil {
			return err
		}
		stats, done = stats.Plus(more), until
		r.step(done)
		if done == m.Steps {
			break
		}
		answer, _, err := r.ask(&wire.At{Train: id, Steps: done})
		if err != nil {
			return err
		}
		gaveUp, look = answer.(*wire.Go).Answer == wire.GiveUp, answer.(*wire.Go).Look
	}
	offer := &wire.Offer{
		Steps: done, Tokens: stats.Tokens, Samples: stats.Samples, Loss: stats.Loss, GradNorm: stats.GradNorm,
		Seconds: stats.Elapsed.Seconds(),
	}
	if m.Export != wire.ExportNothing && !gaveUp {
		if err := r.Trainer.Export(ctx, r.live); err != nil {
			return err
		}
		r.export(0, uint64(len(r.local)), m.Export)
	}
	return r.lastWord(r.send(id, offer))
}

// step shows how many steps are done.
func (r *Rank) step(done uint64) {
	word := (*atomic.Uint64)(unsafe.Pointer(&r.mapped[1][64*r.Number]))
	word.Store(done)
	if r.OnStep != nil {
		r.OnStep(done)
	}
}

// Ping measures the way to the node and back.
func (r *Rank) Ping() (time.Duration, error) {
	began := time.Now()
	_, _, err := r.ask(&wire.Ping{})
	return time.Since(began), err
}

// Send sends any message, for tests of what makes no sense.
func (r *Rank) Send(m wire.Message) error { return r.send(r.next(), m) }

// Kill closes the socket alone, as if the process had died.
func (r *Rank) Kill() { _ = r.socket.Close() }

// Close closes the socket, and gives the memory back.
func (r *Rank) Close() {
	_ = r.socket.Close()
	for i, b := range r.mapped {
		if b != nil {
			_ = unix.Munmap(b)
		}
		r.mapped[i] = nil
	}
}
