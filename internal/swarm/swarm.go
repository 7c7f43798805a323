package swarm

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/p2p"
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
	setting  Setting
	testbed  Testbed
	launcher *Launcher
	started  []*Process
	lives    map[string]int // processes that were started by a name
	peers    []*Peer
	sockets  string // folder of status sockets; its path is short, as theirs must be
}

// New prepares to start processes on a testbed. Close must end it.
func New(setting Setting, testbed Testbed) (*Swarm, error) {
	sockets, err := os.MkdirTemp("", "p2pdiloco-")
	if err != nil {
		return nil, err
	}
	return &Swarm{
		setting: setting, testbed: testbed, launcher: NewLauncher(), lives: make(map[string]int),
		sockets: sockets,
	}, nil
}

// Command prepares the program to run at a site.
func (s *Swarm) Command(site int, args ...string) *exec.Cmd {
	return Command(s.testbed, site, s.setting.Executable, args...)
}

// Start starts a command. Its output goes to files NAME.log and NAME.out in dir; later processes of
// this name have NAME.2 and so on.
func (s *Swarm) Start(cmd *exec.Cmd, dir, name string) (*Process, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	if s.lives[path]++; s.lives[path] > 1 {
		name = fmt.Sprintf("%s.%d", name, s.lives[path])
	}
	p, err := s.launcher.StartCommand(cmd, dir, name)
	if err == nil {
		s.started = append(s.started, p)
	}
	return p, err
}

// StartBoot starts a bootstrap node at a site, with its output in dir, and waits for its addresses.
func (s *Swarm) StartBoot(ctx context.Context, site int, dir string, args ...string) (Boot, error) {
	return StartBoot(ctx, dir, func(name string, args ...string) (*Process, error) {
		return s.Start(s.Command(site, args...), dir, name)
	}, args...)
}

// Listen are the flags that make a node listen where those of other sites reach it.
func (s *Swarm) Listen(site int) (flags []string) {
	for _, a := range Listen(s.testbed, site, p2p.TransportTCP, p2p.TransportQUIC) {
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

// Stop ends all processes that run.
func (s *Swarm) Stop() { StopAll(s.started, s.setting.Hurry) }

// Close is Stop, and frees what the swarm has. The testbed remains.
func (s *Swarm) Close() {
	s.Stop()
	s.launcher.Close()
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
