package browser

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program builds p2pdiloco from the checkout.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p2pdiloco")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/p2pdiloco")
	build.Dir = filepath.Join("..", "..")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return path
}

// process is the program in a process of its own.
type process struct {
	*exec.Cmd
	out   said
	ended chan struct{} // closed at its end
}

// prepare prepares a process that ends with the test, and tells what it said where the test fails.
func prepare(t *testing.T, home, program string, args ...string) *process {
	p := &process{Cmd: exec.CommandContext(t.Context(), program, args...), ended: make(chan struct{})}
	p.Cancel = func() error { return p.Process.Signal(os.Interrupt) }
	p.WaitDelay = 10 * time.Second
	// a test that takes too long ends without cleaning up
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.Dir, p.Env = home, append(os.Environ(), "XDG_STATE_HOME="+home)
	p.Stdout, p.Stderr = &p.out, &p.out
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v: %s", args, p.out.text())
		}
	})
	return p
}

// begin starts the process.
func (p *process) begin(t *testing.T) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait() // with the status of a signal
	}()
	t.Cleanup(func() { <-p.ended })
}

func start(t *testing.T, home, program string, args ...string) *process {
	t.Helper()
	p := prepare(t, home, program, args...)
	p.begin(t)
	return p
}

// said is what a process has said so far.
type said struct {
	mu  sync.Mutex
	all []byte
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, b...)
	return len(b), nil
}

func (s *said) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.all)
}

// peer is a process of a run.
type peer struct {
	dir, addr string
	process   *process
}

// swarm is a run of five processes: four founders with a vote, and one that trains nothing and so
// never gets one. Then two of the other three can remove a founder.
type swarm struct {
	program, home string
	peers         []peer
}

func startSwarm(t *testing.T) *swarm {
	t.Helper()
	s := &swarm{program: program(t), home: t.TempDir()}
	data, err := filepath.Abs(filepath.Join("..", "..", "docs"))
	if err != nil {
		t.Fatal(err)
	}
	trains := []string{"--data", data, "--model", "layers=1,width=48,heads=4,context=32,batch=8"}
	founds := append([]string{"--rounds", "400", "--inner-steps", "40", "--start-peers", "4"}, trains...)
	s.join(t, "office-4090", founds...)
	s.happens(t, "run.founded")
	for _, name := range []string{"attic", "lab/gpu-2", "lab/gpu-10"} {
		s.join(t, name, trains...)
	}
	s.happens(t, "slot.applied") // now the votes are given to the first four
	s.join(t, "archive", "--trainer", "none")
	return s
}

// happens waits for an event of the first peer.
func (s *swarm) happens(t *testing.T, event string) {
	t.Helper()
	until(t, event, func() bool {
		text, _ := os.ReadFile(s.peers[0].dir + ".events")
		return strings.Contains(string(text), event)
	})
}

// join starts a peer, and waits until it listens.
func (s *swarm) join(t *testing.T, name string, more ...string) {
	t.Helper()
	dir := filepath.Join(s.home, strings.ReplaceAll(name, "/", "-"))
	events := dir + ".events"
	args := []string{
		"join", "--run", "bookworms", "--trust", "byzantine", "--preset", "lan", "--listen", "/ip4/127.0.0.1/tcp/0",
		"--quiet", "--data-dir", dir, "--events", events, "--peer-name", name,
	}
	if len(s.peers) > 0 {
		args = append(args, "--bootstrap", s.peers[0].addr)
	}
	process := start(t, s.home, s.program, append(args, more...)...)
	var first struct{ Addrs []string }
	until(t, name+" listens", func() bool {
		text, _ := os.ReadFile(events)
		line, _, whole := strings.Cut(string(text), "\n")
		return whole && json.Unmarshal([]byte(line), &first) == nil && len(first.Addrs) > 0
	})
	s.peers = append(s.peers, peer{dir, first.Addrs[0], process})
}

// page is the address of the page of a peer, with the key.
func (s *swarm) page(t *testing.T, peer int) string {
	t.Helper()
	url, _ := dashboard(t, s.program, s.peers[peer].dir)
	return url
}

// dashboard starts the page of a data directory and returns its address, with the key.
func dashboard(t *testing.T, program, dir string) (url string, p *process) {
	t.Helper()
	p = start(t, dir, program, "dashboard", "--data-dir", dir, "--addr", "127.0.0.1:0")
	line, whole := "", false
	until(t, "the address of the page", func() bool {
		line, _, whole = strings.Cut(p.out.text(), "\n")
		return whole
	})
	return strings.TrimSpace(strings.TrimPrefix(line, "the run's page")), p
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatalf("within a minute: not %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
