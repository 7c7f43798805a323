package lab

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// Setting is what a command tells those who have peers started for it.
type Setting struct {
	Executable string          // this program
	Dir        string          // for data directories, events and logs; exists
	Out        io.Writer       // progress and tables
	Hurry      <-chan struct{} // once it is closed, processes that were asked to stop are killed
}

// Swarm is processes of one program: peers and bootstrap nodes on a testbed. It is for one
// goroutine.
type Swarm struct {
	setting Setting
	testbed Testbed
	// starts processes, in a thread that lives as long as the swarm: on Linux a child dies with the
	// thread that started it
	jobs    chan func()
	started []*Process
	lives   map[string]int // processes that were started by a name
	peers   []*Peer
	sockets string // folder of status sockets; its path is short, as theirs must be
}

// NewSwarm prepares to start processes on a testbed. Close must end it.
func NewSwarm(setting Setting, testbed Testbed) (*Swarm, error) {
	sockets, err := os.MkdirTemp("", "p2pdiloco-")
	if err != nil {
		return nil, err
	}
	s := &Swarm{
		setting: setting, testbed: testbed, jobs: make(chan func()), lives: make(map[string]int), sockets: sockets,
	}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for job := range s.jobs {
			job()
		}
	}()
	return s, nil
}

// Command prepares the program to run at a site.
func (s *Swarm) Command(site int, args ...string) *exec.Cmd {
	return Command(s.testbed, site, s.setting.Executable, args...)
}

// Start starts a command. Its output goes to files NAME.log and NAME.out in dir, but for a stdout
// that it has; later processes of this name have NAME.2 and so on. Its environment, if it has none,
// is this program's without settings: children get all settings as flags.
func (s *Swarm) Start(cmd *exec.Cmd, dir, name string) (*Process, error) {
	path := filepath.Join(dir, name)
	if s.lives[path]++; s.lives[path] > 1 {
		path = fmt.Sprintf("%s.%d", path, s.lives[path])
	}
	p := &Process{cmd: cmd, Log: path + ".log", Stdout: path + ".out", Ended: make(chan struct{})}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if cmd.Stdout == nil {
		stdout, err := os.Create(p.Stdout)
		if err != nil {
			return nil, err
		}
		defer stdout.Close()
		cmd.Stdout = stdout
	}
	stderr, err := os.Create(p.Log)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	cmd.Stderr, cmd.SysProcAttr = stderr, attributes()
	if cmd.Env == nil {
		cmd.Env = sources.Clean(os.Environ())
	}
	failure := make(chan error)
	s.jobs <- func() { failure <- cmd.Start() }
	if err := <-failure; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(p.Ended)
		_ = cmd.Wait() // the state says how it ended
	}()
	s.started = append(s.started, p)
	return p, nil
}

// Listen are the flags that make a node listen where those of other sites reach it.
func (s *Swarm) Listen(site int) (flags []string) {
	for _, a := range Listen(s.testbed, site, "tcp", "quic") {
		flags = append(flags, "--listen", a)
	}
	return flags
}

// Logs are the paths of all processes' logs.
func (s *Swarm) Logs() (paths []string) {
	for _, p := range s.started {
		paths = append(paths, p.Log)
	}
	return paths
}

// Stop asks all processes that run to leave, then to stop, then kills them, and returns when all
// have ended.
func (s *Swarm) Stop() {
	if s.signal(syscall.SIGTERM, leaveGrace) || s.signal(syscall.SIGTERM, stopGrace) {
		return
	}
	s.signal(os.Kill, 0)
	for _, p := range s.started {
		<-p.Ended
	}
}

const (
	leaveGrace = 5 * time.Second // after the first signal
	stopGrace  = time.Second     // after the second
)

// signal sends all processes a signal, and says whether all ended within some time.
func (s *Swarm) signal(how os.Signal, grace time.Duration) bool {
	for _, p := range s.started {
		p.Signal(how)
	}
	late := time.After(grace)
	for _, p := range s.started {
		select {
		case <-p.Ended:
		case <-late:
			return false
		case <-s.setting.Hurry:
			return false
		}
	}
	return true
}

// Close is Stop, and frees what the swarm has. The testbed remains.
func (s *Swarm) Close() {
	s.Stop()
	close(s.jobs)
	for _, p := range s.peers {
		_ = p.events.Close() // it was only read
	}
	_ = os.RemoveAll(s.sockets)
}

// OpenGate lets peers with --gate PATH train for slots up to a number. They never read a part of
// the file.
func OpenGate(path string, slot uint64) error {
	if err := os.WriteFile(path+".new", []byte(strconv.FormatUint(slot, 10)), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// WriteText makes a folder of text to train on. What is learnt does not matter, but it must be the
// same everywhere.
func WriteText(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("any node may die at any moment several in a row the founder and the others carry on " +
		"with identical state")
	for f := range 4 {
		var b strings.Builder
		for b.Len() < 16<<10 {
			b.WriteString(words[rng.IntN(len(words))] + " ")
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.txt", f)), []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
