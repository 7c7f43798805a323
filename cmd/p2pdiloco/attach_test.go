//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/report"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

// slow ends the name of the file that has a rank take its time.
const slow = ".slow"

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
	toy := &attachtest.Toy{Target: float32(target), Pace: pace}
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
		r.OnLoad = func(start []float32, generation uint64) {
			b := unsafe.Slice((*byte)(unsafe.Pointer(&start[0])), 4*len(start))
			fmt.Fprintf(log, "%s.%d %x\n", r.Set, generation, crc32.ChecksumIEEE(b))
			toy.Pace = pace
			if _, err := os.Stat(args[4] + slow); err == nil {
				toy.Pace = 25 * pace
			}
		}
		err = r.Run(context.Background(), os.Getenv(attach.Variable))
		ended := new(attachtest.Ended)
		if errors.As(err, &ended) && ended.Code == wire.CodeEnded {
			os.Exit(0)
		}
		if errors.As(err, &ended) && ended.Code != wire.CodeBusy && ended.Code != wire.CodeClosed || r.Writes != nil {
			break
		}
		time.Sleep(100 * time.Millisecond) // no test: a process that a test waits for
	}
	fmt.Println(err)
	os.Exit(1)
}

// rankCommand is the command line of a rank.
func rankCommand(t *testing.T, number, world int, target float64, log string) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		exe, rankProgram, strconv.Itoa(number), strconv.Itoa(world), fmt.Sprint(target), "2ms", log,
	}
}

// boxes are the flags of peers of a run with trainers that attach.
func boxes(t *testing.T, rounds, peers int, more ...string) []string {
	t.Helper()
	line := append([]string{
		"join", "--run", fmt.Sprintf("attach-%d-%d", os.Getpid(), runs.Add(1)), "--rounds", strconv.Itoa(rounds),
		"--inner-steps", "10", "--outer", "sgd", "--start-peers", strconv.Itoa(peers), "--preset", "lan", "--json",
	}, onLoopback...)
	return append(line, more...)
}

// read reads the report of a peer that has ended.
func read(t *testing.T, p *clitest.Program) (r report.Peer) {
	t.Helper()
	if code := p.Ends(t); code != cli.ExitOK {
		t.Errorf("exit %d: %s", code, p.Err.String())
	}
	if err := json.Unmarshal(p.Out.Bytes(), &r); err != nil {
		t.Errorf("%v: %s", err, p.Out.String())
	}
	return r
}

// TestJoinWithACommand: two peers, each with a command whose processes attach, end with one model;
// the trainers end by themselves.
func TestJoinWithACommand(t *testing.T) {
	t.Parallel()
	args, log := boxes(t, 3, 2), filepath.Join(t.TempDir(), "log")
	one := clitest.Start(t, t.TempDir(), append(append(args, "--"), rankCommand(t, 0, 1, 1, log)...)...)
	two := clitest.Start(t, t.TempDir(), append(append(args, "--"), rankCommand(t, 0, 1, 5, log)...)...)
	if a, b := read(t, one), read(t, two); !a.Ended || a.Slot != 3 || a.StateRoot == "" || a.StateRoot != b.StateRoot {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// TestCommandsThatEndEarly: what the exit status of a command means for the peer.
func TestCommandsThatEndEarly(t *testing.T) {
	t.Parallel()
	for command, c := range map[string]struct {
		code int
		want string
	}{
		"exit 0":     {cli.ExitFailed, "the trainer has ended before all of its processes attached to the node"},
		"exit 3":     {cli.ExitFailed, "sh: exit status 3"},
		"no-command": {cli.ExitFailed, "the command after --: exec: \"no-command\": executable file not found"},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			words := []string{"sh", "-c", command}
			if command == "no-command" {
				words = words[2:]
			}
			p := clitest.Start(t, t.TempDir(), append(append(boxes(t, 3, 1), "--"), words...)...)
			if code := p.Ends(t); code != c.code || !strings.Contains(p.Err.String(), c.want) {
				t.Errorf("exit %d: %s", code, p.Err.String())
			}
		})
	}
}

// TestACommandThatEndsLeaves: a command that ends with status 0 takes the peer out of the run, and
// a signal is passed on to it.
func TestACommandThatEndsLeaves(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir, log := filepath.Join(home, "data"), filepath.Join(home, "log")
	rank := strings.Join(rankCommand(t, 0, 1, 1, log), " ")
	// the shell's trap is what the signal reaches; the rank is in the same group, and dies by it
	script := "trap 'echo told >&2; wait; exit 0' TERM; " + rank + " & wait"
	args := boxes(t, 100000, 1, "--data-dir", dir, "--", "sh", "-c", script)
	p := clitest.Start(t, home, args...)
	clitest.Until(t, "a loaded anchor", func() bool { return len(loads(t, log)) > 2 })
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.Ends(t); code != cli.ExitOK || !strings.Contains(p.Err.String(), "told") {
		t.Errorf("exit %d: %s", code, p.Err.String())
	}
	log += "2"
	rank = strings.Join(rankCommand(t, 0, 1, 1, log), " ")
	// the rank dies while it trains, and the command ends once that was surely seen
	script = rank + ` & until [ "$(cat ` + log + ` 2>/dev/null | wc -l)" -gt 2 ]; do sleep .1; done
		kill -9 $!; sleep 5; exit 0`
	p = clitest.Start(t, home, boxes(t, 100000, 1, "--data-dir", dir+"2", "--", "sh", "-c", script)...)
	gone := "the trainer is gone: rank 0 of 1 was lost"
	if code := p.Ends(t); code != cli.ExitOK || !strings.Contains(p.Err.String(), gone) {
		t.Errorf("exit %d: %s", code, p.Err.String())
	}
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
		if err != nil {
			l.t.Fatal(err)
		}
		c.Stdout = out
		if err := c.Start(); err != nil {
			l.t.Fatal(err)
		}
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

// TestBoxesSurviveKills kills, at random moments, the node or a rank of a box of two ranks, again
// and again. The run's other peer goes on, the box comes back, no rank ever loads a torn anchor,
// and both end with one model.
func TestBoxesSurviveKills(t *testing.T) {
	t.Parallel()
	kills := testlevel.Choose(1, 2, 40) // in each mode
	for _, mode := range []string{"sync", "delayed", "eager", "async", "streaming"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			survive(t, mode, kills)
		})
	}
}

func survive(t *testing.T, mode string, kills int) {
	t.Helper()
	home := t.TempDir()
	events := filepath.Join(home, "events")
	args := boxes(t, 60*kills, 1, "--mode", mode, "--momentum", "0")
	// until the last kill the other one takes .5 s for each slot, or the run might end before a box
	// is back: on a busy machine the box's three processes take seconds to start
	log := filepath.Join(home, "other")
	if err := os.WriteFile(log+slow, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := clitest.Start(t, home, append(append(args, "--events", events, "--"),
		rankCommand(t, 0, 1, 1, log)...)...)
	clitest.AwaitEvent(t, events, "the founder", clitest.Named("run.founded"))
	dir := filepath.Join(home, "box")
	node := func() *clitest.Program {
		return clitest.Start(t, home, append(args, "--data-dir", dir, "--trainer", "attach")...)
	}
	l := newLauncher(t, home, dir)
	box := node()
	l.start()
	random := rand.New(rand.NewPCG(uint64(kills), uint64(len(mode))))
	for range kills {
		before := len(loads(t, l.logs[0]))
		began := time.Now()
		clitest.Until(t, "a load of the box", func() bool { return len(loads(t, l.logs[0])) > before+2 })
		t.Logf("back after %v", time.Since(began))
		time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond) // the moment is random
		if victim := random.IntN(3); victim < 2 {
			_ = l.ranks[victim].Process.Kill()
			l.stop()
		} else {
			_ = box.Process.Kill()
			_ = box.Wait()
			l.stop()
			box = node()
		}
		l.start()
	}
	before := len(loads(t, l.logs[0]))
	clitest.Until(t, "a last load of the box", func() bool { return len(loads(t, l.logs[0])) > before+2 })
	if err := os.Remove(log + slow); err != nil {
		t.Fatal(err)
	}
	a, b := read(t, box), read(t, other)
	l.stop()
	if !a.Ended || a.StateRoot == "" || a.StateRoot != b.StateRoot {
		t.Errorf("%+v\n%+v\n%s", a, b, l.said())
	}
	for i, c := range l.ranks {
		if !c.ProcessState.Success() {
			t.Errorf("rank %d: %v\n%s", i, c.ProcessState, l.said())
		}
	}
	sums := map[string]string{}
	for _, log := range l.logs {
		for _, line := range loads(t, log) {
			at, sum, _ := strings.Cut(line, "=")
			if before, ok := sums[at]; ok && before != sum {
				t.Errorf("at %s one rank loads %s and the other %s", at, before, sum)
			}
			sums[at] = sum
		}
	}
	if len(sums) < kills {
		t.Errorf("%d loads", len(sums))
	}
}

// TestAStoppedRank stops a rank until the set has been given up and the next one trains, and lets
// it go on then: it writes where nobody reads, and the models of both peers end equal.
func TestAStoppedRank(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	events, dir := filepath.Join(home, "events"), filepath.Join(home, "box")
	args := boxes(t, 60, 2)
	log := filepath.Join(home, "other")
	// or the run might end before the box is back
	if err := os.WriteFile(log+slow, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := clitest.Start(t, home, append(append(args, "--events", events, "--"),
		rankCommand(t, 0, 1, 1, log)...)...)
	box := clitest.Start(t, home, append(args, "--data-dir", dir, "--trainer", "attach", "--trainer-timeout", "6s")...)
	l := newLauncher(t, home, dir)
	loaded := func(n int) {
		t.Helper()
		clitest.Until(t, "a load of the box", func() bool { return len(loads(t, l.logs[0])) > n })
	}
	l.start()
	loaded(2)
	stopped := l.ranks[1]
	if err := stopped.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_ = l.ranks[0].Wait()
	if !strings.Contains(l.said(), "rank 1 of 2 has not moved") {
		t.Errorf("the other rank says %s", l.said())
	}
	before := len(loads(t, l.logs[0]))
	l.start()
	loaded(before + 2)
	if err := os.Remove(log + slow); err != nil {
		t.Fatal(err)
	}
	if err := stopped.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	_ = stopped.Wait()
	if a, b := read(t, box), read(t, other); !a.Ended || a.StateRoot == "" || a.StateRoot != b.StateRoot {
		t.Errorf("%+v\n%+v", a, b)
	}
	l.stop()
}
