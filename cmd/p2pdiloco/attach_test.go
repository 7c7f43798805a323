//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// rankCommand is the command line of a rank.
func rankCommand(t *testing.T, number, world int, target float64, log string) []string {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	return []string{
		exe, rankProgram, strconv.Itoa(number), strconv.Itoa(world), fmt.Sprint(target), "2ms", log,
	}
}

// boxes are the flags of peers of a run with trainers that attach.
func boxes(rounds, peers int, more ...string) []string {
	line := append([]string{
		"join", "--run", lab.RunName("attach"), "--rounds", strconv.Itoa(rounds),
		"--inner-steps", "10", "--outer", "sgd", "--start-peers", strconv.Itoa(peers), "--preset", "lan", "--json",
	}, onLoopback...)
	return append(line, more...)
}

// read reads the report of a peer that has ended.
func read(t *testing.T, p *clitest.Program) (r eventlog.Peer) {
	t.Helper()
	p.Exits(t, cli.ExitOK)
	p.Read(t, &r)
	return r
}

// TestJoinWithACommand: two peers, each with a command whose processes attach, end with one model;
// the trainers end by themselves.
func TestJoinWithACommand(t *testing.T) {
	t.Parallel()
	args, log := boxes(3, 2), filepath.Join(t.TempDir(), "log")
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
			p := clitest.Start(t, t.TempDir(), append(append(boxes(3, 1), "--"), words...)...)
			p.Exits(t, c.code, c.want)
		})
	}
}

// TestCommandsThatEndWhileTheRunWaits: the run has not begun, because it waits for a second peer,
// and so the node does not call its trainer. A command that ends then takes the peer out all the
// same, and one that fails does after --trainer-return; else the peer would wait for ever.
func TestCommandsThatEndWhileTheRunWaits(t *testing.T) {
	t.Parallel()
	for status, c := range map[string]struct {
		stays string
		code  int
		want  string
	}{
		"0": {"10m", cli.ExitOK, ""},
		"3": {"2s", cli.ExitFailed, "no trainer has attached again within 2s (--trainer-return)"},
	} {
		t.Run("exit "+status, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "log")
			write(t, log+gathering, "")
			script := strings.Join(rankCommand(t, 0, 1, 1, log), " ") + " & until [ -e " + log + gathering + there +
				" ]; do sleep .1; done; rm " + log + gathering + "; sleep 3; kill -9 $!; exit " + status
			args := boxes(3, 2, "--trainer-return", c.stays, "--", "sh", "-c", script)
			p := clitest.Start(t, t.TempDir(), args...)
			p.Exits(t, c.code, c.want)
		})
	}
}

// TestACommandThatEndsLeaves: a signal is passed on to the command, which takes the peer out of the
// run when it ends with status 0.
func TestACommandThatEndsLeaves(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	log := filepath.Join(home, "log")
	rank := strings.Join(rankCommand(t, 0, 1, 1, log), " ")
	// the shell's trap is what the signal reaches; the rank is in the same group, and dies by it
	script := "trap 'echo told >&2; wait; exit 0' TERM; " + rank + " & wait"
	p := clitest.Start(t, home, boxes(100000, 1, "--", "sh", "-c", script)...)
	clitest.Until(t, "a loaded anchor", func() bool { return len(loads(t, log)) > 2 })
	signaled := time.Now()
	p.Signal(t, syscall.SIGTERM)
	p.Exits(t, cli.ExitOK, "told")
	// after half a minute a command is asked to end in any case
	if took := time.Since(signaled); took > 30*time.Second {
		t.Errorf("the command was told %v after the signal", took)
	}
}

// TestAFounderThatIsAloneGivesItsRunUp: two peers that do not see each other have founded a run
// each, and a third one sees both. The founder that gives its run up says so, and goes on in the
// other one with the same command, which was started once. All three train together.
func TestAFounderThatIsAloneGivesItsRunUp(t *testing.T) {
	t.Parallel()
	home, args := t.TempDir(), boxes(100000, 1, "--inner-steps", "60")
	var peers []*clitest.Program
	var logs, boots, founded []string
	start := func(more ...string) (events string) {
		log := filepath.Join(home, fmt.Sprint(len(peers)))
		if len(peers) < 2 { // it takes 3 s for a slot
			write(t, log+slow, "")
		}
		script := "echo begun >>" + log + ".begun; exec " + strings.Join(rankCommand(t, 0, 1, 1, log), " ")
		logs, events = append(logs, log), log+".events"
		more = append(more, "--data-dir", log+".data", "--events", events, "--", "sh", "-c", script)
		peers = append(peers, clitest.Start(t, t.TempDir(), slices.Concat(args, more)...))
		return events
	}
	for range 2 {
		boots = append(boots, bootNode(t))
		events := start("--bootstrap", boots[len(peers)])
		founded = append(founded, clitest.Await(t, events, "run.founded").RunID)
	}
	start("--bootstrap", boots[0], "--bootstrap", boots[1])
	clitest.Until(t, "the join of a founder", func() bool {
		return slices.ContainsFunc(logs[:2], func(log string) bool {
			return slices.ContainsFunc(lines(t, log+".events"), clitest.Named("run.joined"))
		})
	})
	for _, log := range logs[:2] {
		remove(t, log+slow)
	}
	ids := map[string]bool{}
	for _, log := range logs {
		applies(t, log+".events", 3)
		ids[runOf(t, home, "--data-dir", log+".data")] = true
		if begun, err := os.ReadFile(log + ".begun"); err != nil || string(begun) != "begun\n" {
			t.Errorf("its command was started as %q: %v", begun, err)
		}
	}
	if len(ids) != 1 {
		t.Errorf("they are in the runs %v", ids)
	}
	leave(t, peers...)
	for i, id := range founded {
		if says := strings.Contains(peers[i].Err.String(), id[:16]+", and in sight is"); says == ids[id] {
			t.Errorf("the founder of %s, and all are in %v, says %s", id, ids, &peers[i].Err)
		}
	}
}
