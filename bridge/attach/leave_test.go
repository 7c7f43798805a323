//go:build unix

package attach

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// TestRanksThatLeaveAfterTheSameStep: ranks ask at every step, and the faster one leaves in its
// fourth. The slower one was sent away as lost where it asked next, and its process failed although
// its loop had only a few steps left to do.
func TestRanksThatLeaveAfterTheSameStep(t *testing.T) {
	t.Parallel()
	var all []*attachtest.Rank
	var last [2]atomic.Uint64
	for i := range last {
		r := &attachtest.Rank{Trainer: &attachtest.Toy{Target: 1, Pace: time.Duration(1+100*i) * time.Millisecond}}
		r.OnStep = func(step uint64) {
			if last[i].Store(step); step > 3 { // it was told to go on before
				_ = r.Leave("the loop has ended", 1)
				r.Kill()
			}
		}
		all = append(all, r)
	}
	m, tr, _ := attached(t, Config{Looks: 1}, all...)
	loaded(t, tr)
	_, err := tr.Train(bounded(t), trainer.Task{Slot: 1, Steps: 1000, PartSteps: 1000})
	if !errors.Is(err, trainer.ErrAnew) {
		t.Fatal(err)
	}
	<-m.server.Done()
	if err := m.server.Err(); !errors.Is(err, ErrLeave) {
		t.Error(err)
	}
	if a, b := last[0].Load(), last[1].Load(); a != 4 || b != 4 {
		t.Errorf("they came to steps %d and %d, want 4", a, b)
	}
}

// TestARankSaysWhoIsMissing: rank 0 has not attached, and the lowest of those that have prints so.
// Only the node did, whose output nobody sees where a trainer has started it.
func TestARankSaysWhoIsMissing(t *testing.T) {
	t.Parallel()
	m := newMachine(t, Config{Timeout: 2 * time.Second})
	var all []*attachtest.Rank
	var attached sync.WaitGroup
	for i := range 2 {
		r := &attachtest.Rank{Trainer: &attachtest.Toy{}, Number: uint64(1 + i), World: 3, Set: "three"}
		all = append(all, r)
		attached.Go(func() { wantCode(t, r.Attach(m.server.Path()), wire.CodeTimeout, "rank 0 of 3 has not attached") })
	}
	const want = "rank 0 of 3 has not attached"
	loop, told := m.server.loop, false
	for now := time.Now(); !told; now = now.Add(time.Hour) {
		loop.do(func() []Effect {
			if !strings.Contains(loop.box.Missing(), want) {
				return nil
			}
			said := loop.gathering(now)
			told = len(said) > 0
			return said
		})
		time.Sleep(time.Millisecond)
	}
	attached.Wait()
	if n := all[0].Notices; len(n) != 1 || !strings.HasPrefix(n[0].Text, "the trainer is not complete: "+want) ||
		len(all[1].Notices) != 0 {
		t.Errorf("rank 1 reads %+v, rank 2 %+v", n, all[1].Notices)
	}
}

// TestAMachineWithLittleMemory: what is shared fits, and the node does not. People are told before
// the first step, by the node and by rank 0. The kernel ended the node in the first round.
func TestAMachineWithLittleMemory(t *testing.T) {
	free = func() uint64 { return 1 << 20 }
	defer func() { free = replica.FreeMemory }()
	r := &attachtest.Rank{Trainer: &attachtest.Toy{}}
	m, tr, ended := attached(t, Config{}, r)
	loaded(t, tr)
	const want = "about 160 MiB in mode sync, and 1 MiB are free"
	wantText(t, fmt.Errorf("%q", m.said()), want)
	if err := m.server.Close(); err != nil {
		t.Error(err)
	}
	<-ended[0]
	if len(r.Notices) != 1 || !strings.Contains(r.Notices[0].Text, want) {
		t.Errorf("rank 0 reads %+v", r.Notices)
	}
	if said := scarce(tr.Layout(), 1<<30); said != "" {
		t.Errorf("where it fits: %s", said)
	}
}
