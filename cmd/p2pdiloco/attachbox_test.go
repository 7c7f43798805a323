//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// slow ends the name of the file that has a rank take its time.
const slow = ".slow"

// These end the names of files that have a rank stop in the midst of something. There it makes a
// file with one more ending, there, and goes on when the first one is gone.
const (
	gathering = ".gathering" // the node has taken it in, and waits for what it holds
	filling   = ".filling"   // it is asked for the initial parameters
	loading   = ".loading"   // it is asked to load the anchor
	there     = ".there"
)

// staying ends the name of a file that has a rank outlive its node: it keeps its model and
// attaches again. LOG.all has the number of steps that it has done in all, and LOG.stepped a line
// for each LOAD after which a step was done.
const (
	staying = ".staying"
	all     = ".all"
	stepped = ".stepped"
)

func pause(log, moment string) {
	if !exists(log + moment) {
		return
	}
	_ = os.WriteFile(log+moment+there, nil, 0o600)
	for exists(log + moment) {
		time.Sleep(10 * time.Millisecond) // no test: a process that a test waits for
	}
}

// stopping is a model that stops where it is asked for its initial parameters.
type stopping struct {
	attachtest.Toy
	log  string
	done int // inner steps in all
}

func (s *stopping) Train(ctx context.Context, task trainer.Task) (trainer.Stats, error) {
	stats, err := s.Toy.Train(ctx, task)
	s.done += stats.Steps
	return stats, err
}

func (s *stopping) Init(ctx context.Context, dst []float32) error {
	pause(s.log, filling)
	return s.Toy.Init(ctx, dst)
}

// follow has a rank write its log, and stop where it is asked to.
func (s *stopping) follow(r *attachtest.Rank, file *os.File, pace time.Duration) {
	r.OnWelcome = func() { pause(s.log, gathering) }
	r.OnLoad = func(start []float32, generation uint64) {
		fmt.Fprintf(file, "%s.%d.%d %s\n", r.Set, r.NodePID, generation, checksum(start))
		s.Pace = pace
		if exists(s.log + slow) {
			s.Pace = 25 * pace
		}
		pause(s.log, loading)
	}
	at := 0
	r.OnStep = func(uint64) {
		if len(r.Loads) > at {
			at = len(r.Loads)
			note(s.log+stepped, uint64(at))
		}
	}
}

// beRank attaches, trains, and ends with status 0 when the run has ended. It appends a line to LOG
// for each LOAD: the set, which is the launcher's process, the generation and the checksum of
// start. It takes its time for inner steps while there is a file LOG.slow.
func beRank(args []string) {
	number, _ := strconv.ParseUint(args[0], 10, 64)
	world, _ := strconv.ParseUint(args[1], 10, 64)
	target, _ := strconv.ParseFloat(args[2], 32)
	pace, _ := time.ParseDuration(args[3])
	log, err := os.OpenFile(args[4], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	toy := &stopping{Toy: attachtest.Toy{Target: float32(target), Pace: pace}, log: args[4]}
	for range 600 { // a node that has just started may have no socket yet, or still another trainer
		r := &attachtest.Rank{Trainer: toy, Number: number, World: world, Set: os.Getenv("SET")}
		if world > 1 {
			for i, t := range toy.Layout() {
				n := t.Elements()
				begin, end := n*number/world, n*(number+1)/world
				r.Pieces = append(r.Pieces, wire.Piece{
					Tensor: uint64(i), Flat: true, Offsets: []uint64{begin}, Extents: []uint64{end - begin},
				})
			}
		}
		toy.follow(r, log, pace)
		err = r.Run(context.Background(), os.Getenv(attach.Variable))
		ended := new(attachtest.Ended)
		if errors.As(err, &ended) && ended.Code == wire.CodeEnded {
			note(args[4]+all, uint64(toy.done))
			os.Exit(0)
		}
		if ended.Code == 0 && exists(args[4]+staying) {
			time.Sleep(100 * time.Millisecond) // no test: a process that a test waits for
			continue
		}
		if errors.As(err, &ended) && ended.Code != wire.CodeBusy && ended.Code != wire.CodeClosed || r.Writes != nil {
			break
		}
		time.Sleep(100 * time.Millisecond) // no test: a process that a test waits for
	}
	fmt.Println(err)
	os.Exit(1)
}

// note appends a number to a file, which is a line.
func note(file string, n uint64) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = fmt.Fprintln(f, n)
		_ = f.Close()
	}
}

func checksum(v []float32) string {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*len(v))
	return fmt.Sprintf("%x", crc32.ChecksumIEEE(b))
}

// loads are the lines of a rank's log.
func loads(t *testing.T, log string) []string {
	t.Helper()
	b, err := os.ReadFile(log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Fields(strings.ReplaceAll(string(b), " ", "="))
}

// launcher starts the ranks of a box again whenever one has ended, all of them, as torchrun does.
type launcher struct {
	t     *testing.T
	dir   string // of the box
	world int
	out   string // file of what they print
	logs  []string
	set   int
	ranks []*exec.Cmd
}

// newLauncher makes one of two ranks, for a box whose data are in a directory below home.
func newLauncher(t *testing.T, home, dir string) *launcher {
	return &launcher{
		t: t, dir: dir, world: 2, out: filepath.Join(home, "out"),
		logs: []string{filepath.Join(home, "rank-0"), filepath.Join(home, "rank-1")},
	}
}

// start starts all ranks.
func (l *launcher) start() {
	l.t.Helper()
	l.set++
	l.ranks = nil
	for i := range l.world {
		words := rankCommand(l.t, i, l.world, 3, l.logs[i])
		c := exec.CommandContext(l.t.Context(), words[0], words[1:]...)
		socket := attach.Variable + "=" + filepath.Join(l.dir, "attach.sock")
		c.Env = append(os.Environ(), socket, fmt.Sprintf("SET=set-%d", l.set))
		out, err := os.OpenFile(l.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		must(l.t, err)
		c.Stdout = out
		must(l.t, c.Start())
		_ = out.Close() // the process has it
		l.ranks = append(l.ranks, c)
	}
}

// said is what the ranks have printed.
func (l *launcher) said() string {
	b, _ := os.ReadFile(l.out)
	return string(b)
}

// stop waits for all ranks, after one has ended.
func (l *launcher) stop() {
	for _, c := range l.ranks {
		_ = c.Wait()
	}
}

// loaded is how often the ranks of now have loaded an anchor.
func (l *launcher) loaded() (n int) {
	for _, line := range loads(l.t, l.logs[0]) {
		if strings.HasPrefix(line, fmt.Sprintf("set-%d.", l.set)) {
			n++
		}
	}
	return n
}

// hold has all ranks stop at a moment.
func (l *launcher) hold(moment string) {
	l.t.Helper()
	for _, log := range l.logs {
		write(l.t, log+moment, "")
	}
}

// held waits until all ranks have stopped at a moment.
func (l *launcher) held(moment string) {
	l.t.Helper()
	clitest.Until(l.t, "ranks that are"+moment, func() bool {
		return !slices.ContainsFunc(l.logs, func(log string) bool { return !exists(log + moment + there) })
	})
}

// release lets all ranks go on that have stopped.
func (l *launcher) release(moment string) {
	l.t.Helper()
	for _, log := range l.logs {
		remove(l.t, log+moment)
		remove(l.t, log+moment+there)
	}
}

// untorn checks that all ranks of a set loaded the same bits at each LOAD, of which there were at
// least so many.
func (l *launcher) untorn(least int) {
	l.t.Helper()
	sums := map[string]string{}
	for _, log := range l.logs {
		for _, line := range loads(l.t, log) {
			at, sum, _ := strings.Cut(line, "=")
			if before, ok := sums[at]; ok && before != sum {
				l.t.Errorf("at %s one rank loads %s and the other %s", at, before, sum)
			}
			sums[at] = sum
		}
	}
	if len(sums) < least {
		l.t.Errorf("%d loads", len(sums))
	}
}
