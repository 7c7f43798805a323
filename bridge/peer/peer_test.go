package peer

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runName is a run that no other test on this network takes part in: peers find each other by it.
var runName = "test-" + rand.Text()

// read is settings of a peer that keeps to this machine, and more of them as lines of TOML.
func read(t *testing.T, more string) *Settings {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run.toml")
	text := fmt.Appendf(nil, `
run = %q
preset = "lan"
listen = ["/ip4/127.0.0.1/tcp/0"]%s
`, runName, more)
	must(t, os.WriteFile(file, text, 0o600))
	s, flags := NewSettings(), pflag.NewFlagSet("", pflag.ContinueOnError)
	s.Register(flags)
	flags.String(sources.ConfigFlag, file, "")
	known := sources.Known{}
	known.Add(flags)
	must(t, sources.Fill(flags, known))
	return s
}

const oneRound = `
rounds = 1
outer = "sgd"
outer_lr = "1.0"`

// stepper is a model of four parameters whose inner steps move the first one by 3.
type stepper struct {
	x      []float32
	trains func() // called when a round begins
}

func (*stepper) Layout() p2pdiloco.Layout { return p2pdiloco.Layout{{Name: "w", Shape: []uint64{4}}} }

func (*stepper) Init(_ context.Context, dst []float32) error {
	copy(dst, []float32{1, 2, 3, 4})
	return nil
}

func (s *stepper) Load(_ context.Context, start []float32) error {
	s.x = append(s.x[:0], start...)
	return nil
}

func (s *stepper) Train(_ context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	s.trains()
	s.x[0] += 3
	return p2pdiloco.Stats{Steps: task.Steps, Tokens: 50}, nil
}

func (s *stepper) Export(_ context.Context, dst []float32) error { copy(dst, s.x); return nil }

// trainer hands a peer its trainer.
func (s *stepper) trainer(context.Context, p2pdiloco.Config) (p2pdiloco.Trainer, error) {
	return s, nil
}

// nowhere is a bootstrap address where nobody answers: the run is never found.
const nowhere = `
bootstrap = ["/ip4/127.0.0.1/tcp/9/p2p/12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF"]`

// open starts a peer, which the test's end closes.
func open(t *testing.T, s *Settings, o Options) *Peer {
	t.Helper()
	p, err := Open(t.Context(), s, o)
	must(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// TestOneRound takes a peer through a run that it founds alone.
func TestOneRound(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_STATE_HOME", home)
	events := filepath.Join(home, "events")
	var heard sync.Map
	model := &stepper{}
	p := open(t, read(t, oneRound+fmt.Sprintf(`
linger = "1s"
events = %q`, events)), Options{
		Trainer: model.trainer,
		OnEvent: func(e p2pdiloco.Event) { heard.Store(e.Name, e) },
		Notice:  func(text string) { t.Error(text) },
	})
	if want := filepath.Join(home, "p2pdiloco", runName, "peer-1"); p.Dir() != want {
		t.Errorf("data lies in %s, not in %s", p.Dir(), want)
	}
	node, err := p.Node(t.Context())
	must(t, err)
	model.trains = func() { checkAPI(t, p) }
	if err := node.Run(t.Context()); err != nil || !slices.Equal(model.x, []float32{4, 2, 3, 4}) {
		t.Errorf("after the last slot: %v, %v", model.x, err)
	}
	if err := p.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	if s, ok := p.Status(); !ok || s.Phase != p2pdiloco.PhaseClosed || s.Slot != 1 {
		t.Errorf("left with status %+v", s)
	}
	for _, name := range []string{APIFile, TokenFile} {
		if _, err := os.Stat(filepath.Join(p.Dir(), name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left behind: %v", name, err)
		}
	}
	if _, ok := heard.Load("slot.applied"); !ok {
		t.Error("the hook never heard of the slot")
	}
	checkEvents(t, events)
	for range 2 { // nothing is left to do
		if err := errors.Join(p.Leave(t.Context()), p.Close()); err != nil {
			t.Error(err)
		}
	}
	dir, _, err := takeDir(filepath.Join(home, "p2pdiloco"), runName)
	if err != nil || dir.Root != p.Dir() || dir.Close() != nil {
		t.Errorf("the directory is not free again: %+v, %v", dir, err)
	}
}

// checkAPI asks a running peer as `p2pdiloco status` does, and gives it an order that it refuses.
func checkAPI(t *testing.T, p *Peer) {
	t.Helper()
	address, err := os.ReadFile(filepath.Join(p.Dir(), APIFile))
	must(t, err)
	token, err := os.ReadFile(filepath.Join(p.Dir(), TokenFile))
	must(t, err)
	if info, err := os.Stat(filepath.Join(p.Dir(), TokenFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the token: %v, %v", info.Mode(), err)
	}
	addr, err := api.ParseAddress(strings.TrimSpace(string(address)))
	must(t, err)
	var s p2pdiloco.Status
	client := api.Client{Addr: addr, Token: strings.TrimSpace(string(token))}
	if _, err := client.Get(t.Context(), &s); err != nil || s.Run != runName ||
		s.Phase != p2pdiloco.PhaseRunning {
		t.Errorf("status %+v, %v", s, err)
	}
	if err := client.Recover(t.Context()); err == nil ||
		!strings.Contains(p2pdiloco.ErrQuorum.Error(), strings.TrimPrefix(err.Error(), "the peer refuses: ")) {
		t.Errorf("ordered to recover: %v", err)
	}
}

func checkEvents(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	first, _, _ := strings.Cut(string(text), "\n")
	e, err := eventlog.Parse([]byte(first))
	if err != nil || e.Event != "peer.started" || e.PID != os.Getpid() || e.API == "" {
		t.Errorf("the first event is %s, %v", first, err)
	}
	if !strings.Contains(string(text), `"event":"slot.applied"`) {
		t.Error("the file never heard of the slot")
	}
}

// TestBeforeTheRunIsFound: status says so, and a call that waits for the node returns at the end.
func TestBeforeTheRunIsFound(t *testing.T) {
	for _, end := range map[string]func(*Peer) error{
		"leave": func(p *Peer) error { return p.Leave(t.Context()) },
		"close": func(p *Peer) error { return p.Close() },
	} {
		started := make(chan struct{})
		p := open(t, read(t, nowhere+fmt.Sprintf(`
data_dir = %q`, t.TempDir())),
			Options{OnEvent: func(e p2pdiloco.Event) {
				if e.Name == "run.searching" {
					close(started)
				}
			}})
		<-started
		if s, ok := p.Status(); !ok || s.Phase != p2pdiloco.PhaseSearching || s.Run != runName || s.Peer == "" ||
			len(s.Addrs) == 0 || s.Members == nil {
			t.Errorf("searching with status %+v, %v", s, ok)
		}
		if _, err := p.commands(); err == nil || !strings.Contains(err.Error(), "still looking") {
			t.Errorf("ordered to recover: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.Node(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("no patience: %v", err)
		}
		waited := make(chan error)
		go func() {
			_, err := p.Node(t.Context())
			waited <- err
		}()
		if err := end(p); err != nil {
			t.Error(err)
		}
		if err := <-waited; !errors.Is(err, p2pdiloco.ErrClosed) || !errors.Is(err, net.ErrClosed) {
			t.Errorf("waited for the node of a closed peer: %v", err)
		}
	}
}

// TestRefused: what is wrong is said before the network is touched, and nothing is left behind.
func TestRefused(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_STATE_HOME", home)
	for _, c := range []struct {
		more, want string
		invalid    bool
	}{
		{`
min_peers = 3
start_peers = 2`, "min_peers = 3", true},
		{`
init = "m.safetensors"`, "InitFile needs", true},
		{fmt.Sprintf(`
events = %q`, home), "events file", false},
		{fmt.Sprintf(`
data_dir = "%s/file/x"`, home), "not a directory", false},
		{fmt.Sprintf(`
api = "unix:%s/none/x"`, home), "--api", false},
	} {
		must(t, os.WriteFile(filepath.Join(home, "file"), nil, 0o600))
		p, err := Open(t.Context(), read(t, c.more), Options{})
		if err == nil {
			t.Errorf("%s was accepted", c.more)
			_ = p.Close()
			continue
		}
		if !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrInvalid) != c.invalid {
			t.Errorf("%s: %v, invalid is %v", c.more, err, !c.invalid)
		}
	}
	if dir, first, err := takeDir(filepath.Join(home, "p2pdiloco"), runName); err != nil || !first ||
		dir.Close() != nil {
		t.Errorf("a lock is left behind: %+v, %v", dir, err)
	}
}

var errTrainer = errors.New("no such GPU")

// others is another process with a peer's directory, and the files of its API.
func others(t *testing.T, dir string) (unhurt func()) {
	t.Helper()
	d, err := datadir.Open(disk.OS, dir)
	must(t, err)
	names := []string{APIFile, TokenFile}
	for _, name := range names {
		must(t, os.WriteFile(d.Path(name), []byte("of the other one"), 0o600))
	}
	return func() {
		t.Helper()
		for _, name := range names {
			if b, err := os.ReadFile(d.Path(name)); string(b) != "of the other one" {
				t.Errorf("%s of the other process: %q, %v", name, b, err)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A process serves peer-1 under its path: a peer of the run takes peer-2. It took peer-1, failed,
// and removed the files by which the other one's API is found.
func TestADirectoryThatIsServedIsNotTaken(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_STATE_HOME", home)
	parent := dirOfRun(filepath.Join(home, "p2pdiloco"), runName)
	unhurt := others(t, filepath.Join(parent, "peer-1"))
	p := open(t, read(t, nowhere), Options{Notice: func(string) {}})
	if want := filepath.Join(parent, "peer-2"); p.Dir() != want {
		t.Errorf("its data lies in %s, not in %s", p.Dir(), want)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	unhurt()
}

// A second process comes while the trainer of the first one starts, which may take minutes: it is
// refused, and leaves the first one's API alone. It got the directory, took over the files by which
// that API is found, failed, and removed them. The trainer fails, and that is said.
func TestADirectoryIsLockedWhileTheTrainerStarts(t *testing.T) {
	dir := t.TempDir()
	of := read(t, fmt.Sprintf(`
data_dir = %q`, dir))
	starts, second := make(chan struct{}), make(chan struct{})
	p := open(t, of, Options{
		Trainer: func(_ context.Context, cfg p2pdiloco.Config) (p2pdiloco.Trainer, error) {
			if cfg.DataDir != dir {
				t.Errorf("the trainer is to keep its files in %s, not in %s", cfg.DataDir, dir)
			}
			close(starts)
			<-second
			return nil, errTrainer
		},
	})
	<-starts
	before, err := os.ReadFile(filepath.Join(dir, APIFile))
	must(t, err)
	if _, err := Open(t.Context(), of, Options{}); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("a second process: %v", err)
	}
	if now, err := os.ReadFile(filepath.Join(dir, APIFile)); err != nil || !bytes.Equal(now, before) {
		t.Errorf("the API is said to be at %q, and was at %q: %v", now, before, err)
	}
	close(second)
	if _, err := p.Node(t.Context()); !errors.Is(err, errTrainer) || errors.Is(err, p2pdiloco.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if s, ok := p.Status(); ok {
		t.Errorf("status %+v of a peer that never started", s)
	}
	if _, err := p.commands(); !errors.Is(err, errTrainer) {
		t.Errorf("ordered to recover: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	others(t, dir)() // it is free
}

// TestSideBySide: a second peer of the run takes another directory and says so; an events file that
// fails is said once.
func TestSideBySide(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var notices []string
	var mu sync.Mutex
	notice := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		notices = append(notices, text)
	}
	first := open(t, read(t, nowhere), Options{Notice: notice})
	second := open(t, read(t, nowhere), Options{Notice: notice})
	if first.Dir() == second.Dir() || len(notices) != 1 || !strings.Contains(notices[0], second.Dir()) {
		t.Errorf("%s and %s, notices %q", first.Dir(), second.Dir(), notices)
	}
	third := &Peer{options: Options{Notice: notice}}
	var err error
	third.events, err = openEvents(&Settings{Events: filepath.Join(t.TempDir(), "events")}, notice, third.id)
	must(t, err)
	must(t, third.events.file.Close())
	for range 2 {
		third.onEvent(p2pdiloco.Event{Name: "slot.applied"})
	}
	if err := third.events.close(); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	if len(notices) != 2 || !strings.Contains(notices[1], "events are missing") {
		t.Errorf("notices %q", notices)
	}
}

// must fails where something did.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
