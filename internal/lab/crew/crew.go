// Package crew runs processes of this program, peers and bootstrap nodes, on a testbed of package
// lab. Chaos and the benches decide what the processes are for; a Crew starts and ends them, and a
// Peer is what can be read of one: its events, its status and its report.
package crew

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

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Setting is what a command tells those who have peers started for it.
type Setting struct {
	Executable string          // this program
	Dir        string          // for data directories, events and logs; exists
	Out        io.Writer       // progress and tables
	Hurry      <-chan struct{} // once it is closed, processes that were asked to stop are killed
}

// A Crew starts processes of one program. It is for one goroutine.
type Crew struct {
	setting  Setting
	testbed  lab.Testbed
	launcher *swarm.Launcher
	started  []*swarm.Process
	lives    map[string]int // processes that were started by a name
	peers    []*Peer
	sockets  string // folder of status sockets; its path is short, as theirs must be
}

// New prepares to start processes on a testbed. Close must end it.
func New(setting Setting, testbed lab.Testbed) (*Crew, error) {
	sockets, err := os.MkdirTemp("", "p2pdiloco-")
	if err != nil {
		return nil, err
	}
	return &Crew{
		setting: setting, testbed: testbed, launcher: swarm.NewLauncher(), lives: make(map[string]int),
		sockets: sockets,
	}, nil
}

// Command prepares the program to run at a site.
func (c *Crew) Command(site int, args ...string) *exec.Cmd {
	return lab.Command(c.testbed, site, c.setting.Executable, args...)
}

// Start starts a command. Its output goes to files NAME.log and NAME.out in dir; later processes of
// this name have NAME.2 and so on.
func (c *Crew) Start(cmd *exec.Cmd, dir, name string) (*swarm.Process, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	if c.lives[path]++; c.lives[path] > 1 {
		name = fmt.Sprintf("%s.%d", name, c.lives[path])
	}
	p, err := c.launcher.StartCommand(cmd, dir, name)
	if err == nil {
		c.started = append(c.started, p)
	}
	return p, err
}

// StartBoot starts a bootstrap node at a site, with its output in dir, and waits for its addresses.
func (c *Crew) StartBoot(ctx context.Context, site int, dir string, args ...string) (swarm.Boot, error) {
	return swarm.StartBoot(ctx, dir, func(name string, args ...string) (*swarm.Process, error) {
		return c.Start(c.Command(site, args...), dir, name)
	}, args...)
}

// Listen are the flags that make a node listen where those of other sites reach it.
func (c *Crew) Listen(site int) (flags []string) {
	for _, a := range lab.Listen(c.testbed, site, p2p.TransportTCP, p2p.TransportQUIC) {
		flags = append(flags, "--listen", a)
	}
	return flags
}

// Logs are the paths of all processes' logs.
func (c *Crew) Logs() (paths []string) {
	for _, p := range c.started {
		paths = append(paths, p.Log)
	}
	return paths
}

// Stop ends all processes that run.
func (c *Crew) Stop() { swarm.StopAll(c.started, c.setting.Hurry) }

// Close is Stop, and frees what the crew has. The testbed remains.
func (c *Crew) Close() {
	c.Stop()
	c.launcher.Close()
	for _, p := range c.peers {
		_ = p.events.Close() // it was only read
	}
	_ = os.RemoveAll(c.sockets)
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
