//go:build unix

package attach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// attached is a trainer without a node, and its ranks.
func attached(t *testing.T, cfg Config, all ...*attachtest.Rank) (*machine, *Trainer, []chan error) {
	t.Helper()
	m := newMachine(t, cfg)
	ended := ranks(t.Context(), m, "one", all...)
	tr, err := m.server.Trainer(bounded(t))
	must(t, err)
	return m, tr, ended
}

// loaded has the ranks take a model of zeros.
func loaded(t *testing.T, tr *Trainer) {
	t.Helper()
	clear(tr.start)
	must(t, tr.Load(t.Context(), tr.start))
}

func wantCode(t *testing.T, err error, code wire.Code, text string) {
	t.Helper()
	e := new(attachtest.Ended)
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Text, text) {
		t.Errorf("%v, want code %d with %q", err, code, text)
	}
}

func wantText(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, want %q", err, text)
	}
}

// TestGivingUp: ranks of different speeds end at one step when the node gives up, long before the
// last, and the next Train is as any other.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	var last [3]atomic.Uint64
	var all []*attachtest.Rank
	for i := range last {
		all = append(all, &attachtest.Rank{
			Trainer: &attachtest.Toy{Target: 1, Pace: time.Duration(1+2*i) * time.Millisecond},
			OnStep:  func(step uint64) { last[i].Store(step) },
		})
	}
	_, tr, _ := attached(t, Config{}, all...)
	loaded(t, tr)
	ctx, cancel := context.WithCancel(t.Context())
	reported := 0
	task := trainer.Task{Slot: 1, Steps: 100_000, PartSteps: 100_000, Progress: func(done int) {
		if reported = done; done > 10 {
			cancel()
		}
	}}
	if _, err := tr.Train(ctx, task); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	loaded(t, tr) // the ranks have given up
	a, b, c := last[0].Load(), last[1].Load(), last[2].Load()
	if a < 10 || a > 10_000 || b != a || c != a {
		t.Errorf("they ended after %d, %d and %d steps, of which %d were reported", a, b, c, reported)
	}
	task.Steps, task.Progress = 3, nil
	stats, err := tr.Train(t.Context(), task)
	if err != nil || stats.Steps != 3 || stats.Tokens != 9 || stats.Loss != 1 {
		t.Errorf("%+v, %v", stats, err)
	}
	err = tr.ExportGradient(t.Context(), tr.start, tr.local, func(begin, end int) error {
		if begin != 0 || end != len(tr.local) || math.Abs(float64(tr.local[7])+0.271) > 1e-6 {
			t.Errorf("elements %d to %d, one is %v", begin, end, tr.local[7])
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// oneRound is what a node does at the beginning of the round after a slot.
func oneRound(t *testing.T, tr *Trainer, slot uint64) {
	t.Helper()
	tr.BeginAt(trainer.Anchor{Slot: slot, Root: [32]byte{byte(slot)}, Step: 500 * slot, TotalSteps: 2000})
	loaded(t, tr)
	if _, err := tr.Train(t.Context(), trainer.Task{Slot: slot + 1, Steps: 1}); err != nil {
		t.Fatal(err)
	}
}

// TestSaveAndRestore: the private state of each round's beginning comes back with its anchor, or
// the newest one that all ranks have saved, and no more than two of those are kept.
func TestSaveAndRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pair := func() ([]*keeper, *machine, *Trainer, []chan error) {
		toys := []*keeper{{}, {}}
		m, tr, ended := attached(t, Config{DataDir: dir}, &attachtest.Rank{Trainer: toys[0]},
			&attachtest.Rank{Trainer: toys[1]})
		return toys, m, tr, ended
	}
	toys, m, tr, ended := pair()
	for i := range 4 {
		toys[0].private.Store(string(rune('a' + i)))
		toys[1].private.Store(string(rune('A' + i)))
		toys[1].full.Store(i == 3)
		oneRound(t, tr, uint64(i))
		oneRound(t, tr, uint64(i)) // a slot that was cut short is no other anchor
	}
	if folders, err := os.ReadDir(filepath.Join(dir, stateDir)); err != nil || len(folders) != 3 {
		t.Errorf("%v, %v", folders, err)
	}
	must(t, m.server.Close())
	for _, c := range ended {
		wantCode(t, <-c, wire.CodeClosed, "")
	}
	for _, c := range []struct {
		slot uint64
		want string
		said string
	}{
		{2, "cC", "went on at step 1,000 of 2,000 (slot 3); optimizer kept"},
		{1, "bB", "went on at step 500 of 2,000 (slot 2); optimizer kept"},
		{3, "cC", "as it was at step 1,000: the 500 steps since then are lost to it"},
	} {
		toys, m, tr, _ := pair()
		toys[0].private.Store("")
		toys[1].private.Store("")
		tr.BeginAt(trainer.Anchor{Slot: c.slot, Root: [32]byte{byte(c.slot)}, Step: 500 * c.slot, TotalSteps: 2000})
		loaded(t, tr)
		if got := toys[0].private.Load().(string) + toys[1].private.Load().(string); got != c.want {
			t.Errorf("slot %d: %q came back", c.slot, got)
		}
		wantText(t, fmt.Errorf("%q", tr.private.GoneOn()), c.said)
		must(t, m.server.Close())
	}
}

// keeper is a trainer with a private state.
type keeper struct {
	attachtest.Toy
	private atomic.Value // a string
	full    atomic.Bool
}

func (k *keeper) Save(_ context.Context, path string) error {
	if k.full.Load() {
		return errors.New("the disk is full")
	}
	return os.WriteFile(path, []byte(k.private.Load().(string)), 0o600)
}

func (k *keeper) Restore(_ context.Context, path string) error {
	b, err := os.ReadFile(path)
	k.private.Store(string(b))
	return err
}

// single is a node with one rank, which has attached.
func single(t *testing.T, cfg Config) (*machine, *Trainer, *attachtest.Rank) {
	t.Helper()
	m := newMachine(t, cfg)
	r := &attachtest.Rank{Trainer: &attachtest.Toy{Target: 1}, World: 1, Set: "a"}
	must(t, r.Attach(m.server.Path()))
	t.Cleanup(r.Close)
	tr, err := m.server.Trainer(bounded(t))
	must(t, err)
	return m, tr, r
}

// TestTheNextSetHasItsOwnMemory: a process of a set that is gone writes where nobody reads, and the
// node's vectors stay where they are. What is mapped is counted: a status that counted a local that
// is gone would be wrong about what attaching takes.
func TestTheNextSetHasItsOwnMemory(t *testing.T) {
	t.Parallel()
	m, tr, old := single(t, Config{})
	mapped := func(mappings uint64) {
		t.Helper()
		if got := tr.SharedBytes(); got != mappings*Size(253) {
			t.Errorf("%d bytes are shared, not %d mappings", got, mappings)
		}
	}
	mapped(2)
	local := tr.local
	old.Local()[3] = 5
	if local[3] != 5 {
		t.Fatal("the vector is not shared")
	}
	old.Kill()
	var err error
	for err == nil {
		_, err = tr.Evaluate(t.Context())
	}
	if !errors.Is(err, trainer.ErrAnew) {
		t.Fatal(err)
	}
	next := ranks(t.Context(), m, "new", &attachtest.Rank{Trainer: &attachtest.Toy{Target: 1}})
	must(t, tr.Return(t.Context(), err))
	mapped(2)
	old.Local()[3] = 7
	if loaded(t, tr); local[3] != 0 {
		t.Errorf("an old process wrote %v", local[3])
	}
	_, err = tr.Train(t.Context(), trainer.Task{Slot: 1, Steps: 1})
	if err != nil || local[3] != -0.1 || local[4] != -0.1 {
		t.Errorf("%v, %v", local[3:5], err)
	}
	if err := m.server.Close(); err != nil {
		t.Error(err)
	}
	<-next[0]
	mapped(0)
}

// TestReturn: what the peer says, and how long it waits. A trainer that comes later is refused.
func TestReturn(t *testing.T) {
	t.Parallel()
	m, tr, r := single(t, Config{Return: 50 * time.Millisecond})
	must(t, r.Leave("the loop has ended", 0))
	var err error
	for range 2 { // the second call is one that begins when the set is gone
		_, err = tr.Evaluate(t.Context())
		if wantText(t, err, "rank 0 of 1 has left: the loop has ended"); !errors.Is(err, trainer.ErrAnew) {
			t.Error(err)
		}
	}
	if err := tr.Return(t.Context(), err); err == nil || err.Error() !=
		"no trainer has attached again within 50ms (--trainer-return)" {
		t.Error(err)
	}
	want := "the trainer is gone: rank 0 of 1 has left: the loop has ended. This peer stays a member, and waits 50ms " +
		"(--trainer-return) for a trainer that attaches"
	if said := m.said(); len(said) != 1 || said[0] != want {
		t.Errorf("%q", said)
	}
	late := &attachtest.Rank{Trainer: &attachtest.Toy{}, World: 1, Set: "b"}
	wantCode(t, late.Attach(m.server.Path()), wire.CodeClosed, "no trainer has attached again within 50ms")
}

// TestTheEndIsToldAtOnce: a trainer that wants the peer to leave, and one that does not come back,
// are told while nobody calls the trainer. A node that looks for its run, or is paused, would go on
// for ever without that, and every later trainer would be refused.
func TestTheEndIsToldAtOnce(t *testing.T) {
	t.Parallel()
	for want, leaves := range map[error]uint64{ErrLeave: 1, ErrNoReturn: 0} {
		m, tr, r := single(t, Config{Return: 50 * time.Millisecond})
		must(t, errors.Join(m.server.Err(), r.Leave("enough", leaves)))
		select {
		case <-m.server.Done():
		case <-time.After(10 * time.Second):
			t.Fatalf("%v was not told", want)
		}
		if err := m.server.Err(); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		if err := tr.Return(t.Context(), trainer.ErrAnew); !errors.Is(err, want) {
			t.Errorf("the node is told %v, want %v", err, want)
		}
	}
}

// TestRefusals: each mistake is one sentence, before the first step.
func TestRefusals(t *testing.T) {
	t.Parallel()
	m, _, first := single(t, Config{Run: "my-run", Timeout: 2 * time.Second})
	toy := first.Trainer
	for _, c := range []struct {
		rank *attachtest.Rank
		code wire.Code
		text string
	}{
		{&attachtest.Rank{Set: "pid 80"}, wire.CodeBusy, "a trains this run here"},
		{&attachtest.Rank{Set: "a"}, wire.CodeRank, "rank 0 of 1 is attached already"},
		{&attachtest.Rank{Set: "a", Number: 4}, wire.CodeRank, "rank 4 of 1"},
		{&attachtest.Rank{RunName: "another"}, wire.CodeRun, `takes part in run "my-run"`},
		{&attachtest.Rank{Version: 2 << 16}, wire.CodeVersion, "speaks attach protocol 1, the client 2"},
	} {
		c.rank.Trainer, c.rank.World = toy, 1
		wantCode(t, c.rank.Attach(m.server.Path()), c.code, c.text)
	}
	if _, err := first.Ping(); err != nil {
		t.Errorf("the first one: %v", err)
	}
	if err := first.Send(&wire.Share{}); err != nil {
		t.Fatal(err)
	}
	_, _, err := first.Border(t.Context())
	wantCode(t, err, wire.CodeProtocol, "SHARE from rank 0: only the node sends that")
	half := &attachtest.Rank{Trainer: toy, World: 2, Set: "half", Pieces: flat(toy.Layout(), 0, 2)}
	wantCode(t, half.Attach(m.server.Path()), wire.CodeTimeout, "rank 1 of 2 has not attached for 2s")
}

// huge is a model that no machine has room for.
type huge struct{ attachtest.Toy }

func (*huge) Layout() trainer.Layout {
	return trainer.Layout{{Name: "w", Shape: []uint64{1 << 20, 1 << 20}}}
}

// TestTooLittleMemory: what ranks, the node's log and its line for people say of a model that there
// is no room for. All of that is before the first step.
func TestTooLittleMemory(t *testing.T) {
	t.Parallel()
	log := new(strings.Builder)
	m := newMachine(t, Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	var told [2]chan error
	for i := range told {
		r := &attachtest.Rank{Trainer: new(huge), Number: uint64(i), World: 2, Set: "huge"}
		told[i] = make(chan error, 1)
		go func() { told[i] <- r.Attach(m.server.Path()) }()
	}
	const text = "too little memory: a vector that is shared with the trainer takes 4194304 MiB, and "
	for _, c := range told {
		wantCode(t, <-c, wire.CodeMemory, text)
	}
	if said := m.said(); len(said) != 1 ||
		!strings.HasPrefix(said[0], "a trainer was refused before its first step: "+text) {
		t.Errorf("people are told: %q", said)
	}
	if m.server.Came() {
		t.Error("it counts as one that has attached")
	}
	if err := m.server.Close(); err != nil { // nothing is written to the log any more
		t.Error(err)
	}
	if !strings.Contains(log.String(), `msg="a trainer was refused" err="`+text) {
		t.Errorf("the log: %s", log)
	}
}

// TestAHungRank is sent away with all others.
func TestAHungRank(t *testing.T) {
	t.Parallel()
	stuck := make(chan struct{})
	defer close(stuck)
	slow := &attachtest.Rank{Trainer: &attachtest.Toy{}, OnStep: func(step uint64) {
		if step == 2 {
			<-stuck
		}
	}}
	_, tr, ended := attached(t, Config{Timeout: 2 * time.Second}, &attachtest.Rank{Trainer: &attachtest.Toy{}}, slow)
	loaded(t, tr)
	_, err := tr.Train(t.Context(), trainer.Task{Slot: 1, Steps: 4})
	wantText(t, err, "rank 1 of 2 has not moved after 2 of 4 steps for 2s (--trainer-timeout)")
	if !errors.Is(err, trainer.ErrAnew) {
		t.Error(err)
	}
	wantCode(t, <-ended[0], wire.CodeTimeout, "rank 1 of 2")
}

// sendAway sends the ranks away. The node waits for the next trainer.
func sendAway(s *Server) {
	s.loop.do(func() todo { return s.loop.box.Dismiss(*fault(wire.CodeTimeout, "rank 0 of 1 has not moved")) })
}

// TestNoticesAndDismissal: ranks are told lines for people, and those that are sent away may come
// again.
func TestNoticesAndDismissal(t *testing.T) {
	t.Parallel()
	rank := &attachtest.Rank{Trainer: &attachtest.Toy{}}
	m, tr, ended := attached(t, Config{Timeout: 4 * time.Second}, rank)
	loaded(t, tr)
	m.server.Notify(wire.NoticeWarn, "paused: no quorum")
	sendAway(m.server)
	wantCode(t, <-ended[0], wire.CodeTimeout, "rank 0 of 1 has not moved")
	want := wire.Notice{Level: wire.NoticeWarn, Text: "paused: no quorum"}
	if got := rank.Notices; len(got) != 1 || got[0] != want {
		t.Errorf("said %+v, want %+v", got, want)
	}
	again := &attachtest.Rank{Trainer: &attachtest.Toy{}, World: 1}
	if err := again.Attach(m.server.Path()); err != nil {
		t.Errorf("it is not taken again: %v", err)
	}
}

// TestTheSocket: its place, its rights, a stale one, and a second node.
func TestTheSocket(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, socketFile) // of a node that was killed
	must(t, os.WriteFile(stale, nil, 0o600))
	m := newMachine(t, Config{DataDir: dir})
	path, err := os.ReadFile(filepath.Join(dir, pathFile))
	if err != nil || strings.TrimSpace(string(path)) != m.server.Path() {
		t.Errorf("%q, %v", path, err)
	}
	if info, err := os.Stat(m.server.Path()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if s, err := Listen(Config{DataDir: dir}); err == nil || !strings.Contains(err.Error(), "another node listens at") {
		t.Errorf("a second node: %v, %v", s, err)
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	must(t, os.Mkdir(long, 0o700))
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	deep := newMachine(t, Config{DataDir: long})
	if len(deep.server.Path()) > maxSocketPath {
		t.Errorf("%s", deep.server.Path())
	}
	// where the node is killed, its ranks wait at this path for the next one
	folder := filepath.Dir(deep.server.Path())
	if again, err := place(long); again != folder || err != nil {
		t.Errorf("ranks wait in %s, the next node listens in %s, %v", folder, again, err)
	}
	if err := os.Chmod(folder, 0o777); err != nil { // as another user leaves it
		t.Fatal(err)
	}
	if third, err := place(long); third == folder || err != nil {
		t.Error("a folder that others can use is taken")
	}
}
