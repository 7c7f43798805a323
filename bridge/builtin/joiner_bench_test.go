//go:build unix

package builtin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/statesync"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// BenchmarkBesideAJoiner is the rate of inner steps of a peer that serves its state to a joiner,
// over the rate when it does not: rounds of two seconds each, turn by turn. The peer serves at
// Config.StateBytesPerSecond's default, over TCP with TLS on loopback. The joiner is a process of
// its own, with the lowest priority, since it has to be on the same machine: what it takes is not
// the donor's. threads=1 is what join does by default; with a thread on every core, each wait of
// one for the others is a wait of all.
//
//	go test -run xxx -bench BesideAJoiner -benchtime 10x ./bridge/builtin
func BenchmarkBesideAJoiner(b *testing.B) {
	for _, threads := range []int{1, runtime.GOMAXPROCS(0)} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) { besideAJoiner(b, threads) })
	}
}

func besideAJoiner(b *testing.B, threads int) {
	perCore := int64(4_000_000) // p2pdiloco.Config.StateBytesPerSecond's default
	j := startJoiner(b, serve(b, perCore*int64(runtime.GOMAXPROCS(0))))
	t := newTestTrainer(b, Config{Threads: threads})
	data := newSampler(t.corpus, trainer.Task{Seed: 1, Slot: 1, Self: "a"}, t.cfg.Batch, t.cfg.Context)
	const round = 2 * time.Second
	train := func() (steps float64) {
		for began := time.Now(); time.Since(began) < round; steps++ {
			if _, _, err := t.step(data); err != nil {
				b.Fatal(err)
			}
		}
		return steps
	}
	var alone, beside, bytes, cpuAlone, cpuBeside float64
	for b.Loop() {
		at := cpuSeconds(b)
		alone += train()
		cpuAlone += cpuSeconds(b) - at
		at = cpuSeconds(b)
		j.begin(b)
		beside += train()
		bytes += float64(j.end(b))
		cpuBeside += cpuSeconds(b) - at
	}
	serving := cpuBeside - cpuAlone*beside/alone
	b.ReportMetric(beside/alone, "rate-with/without-joiner")
	b.ReportMetric(alone/float64(b.N)/round.Seconds(), "steps/s-alone")
	b.ReportMetric(100*serving/(float64(b.N)*round.Seconds()*float64(runtime.GOMAXPROCS(0))), "%-of-all-cores")
	b.ReportMetric(serving/bytes*1e9, "CPU-s/GB")
	b.ReportMetric(bytes/float64(b.N)/round.Seconds()/1e6, "MB/s-served")
}

// cpuSeconds is the processor time that this process has used.
func cpuSeconds(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// serve serves a state of 64 MiB over a network of its own, and says what a joiner must know of it.
func serve(b *testing.B, rate int64) joinerTask {
	b.Helper()
	v := make([]float32, 16<<20)
	noise := rand.New(rand.NewPCG(1, 2))
	for i := range v {
		v[i] = float32(noise.NormFloat64())
	}
	store, err := checkpoint.Open(b.TempDir(),
		checkpoint.Config{Shape: checkpoint.Shape{Elements: uint64(len(v))}, FrameBytes: 1 << 18})
	if err != nil {
		b.Fatal(err)
	}
	root := checkpoint.StateRoot(1, v)
	if err := store.Save(1, 1, root, v); err != nil {
		b.Fatal(err)
	}
	net, err := p2p.New(b.Context(), loopback(nil))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = net.Close() })
	server := statesync.NewServer(store, statesync.ServerConfig{BytesPerSecond: rate})
	b.Cleanup(func() { _ = server.Close() })
	net.Handle(p2p.ProtocolState, server.Serve)
	return joinerTask{net.Addrs(), net.ID(), root, store.Shape(), b.TempDir()}
}

func loopback(bootstrap []string) p2p.Config {
	cfg := p2p.LAN()
	cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	cfg.Bootstrap = bootstrap
	return cfg
}

// joinerEnv holds, in the environment of this program started again, what the joiner is to do.
const joinerEnv = "P2PDILOCO_BENCH_JOINER"

// joinerTask is what a joiner is told.
type joinerTask struct {
	Addrs []string
	Donor slot.PeerID
	Root  slot.Root
	Shape checkpoint.Shape
	Dir   string
}

func init() {
	text := os.Getenv(joinerEnv)
	if text == "" {
		return
	}
	var task joinerTask
	err := json.Unmarshal([]byte(text), &task)
	if err == nil {
		err = task.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "joiner:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// joinerProcess is a joiner that fetches between begin and end.
type joinerProcess struct {
	orders  io.WriteCloser
	answers *bufio.Reader
}

func startJoiner(b *testing.B, task joinerTask) *joinerProcess {
	b.Helper()
	text, err := json.Marshal(task)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), joinerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	orders, err1 := cmd.StdinPipe()
	answers, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil || cmd.Start() != nil {
		b.Fatal(err1, err2)
	}
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, cmd.Process.Pid, 19); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = orders.Close(); _ = cmd.Wait() })
	return &joinerProcess{orders, bufio.NewReader(answers)}
}

func (j *joinerProcess) begin(b *testing.B) {
	b.Helper()
	if _, err := fmt.Fprintln(j.orders, "begin"); err != nil {
		b.Fatal(err)
	}
}

// end returns the bytes that came since begin.
func (j *joinerProcess) end(b *testing.B) (bytes int64) {
	b.Helper()
	if _, err := fmt.Fprintln(j.orders, "end"); err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Fscanln(j.answers, &bytes); err != nil {
		b.Fatal(err)
	}
	return bytes
}

// run obeys the orders on standard input until it is closed.
func (t joinerTask) run() error {
	net, err := p2p.New(context.Background(), loopback(t.Addrs))
	if err != nil {
		return err
	}
	defer net.Close()
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		ctx, cancel := context.WithCancel(context.Background())
		var bytes int64
		var wg sync.WaitGroup
		wg.Go(func() { bytes, err = t.fetch(ctx, opener{net}) })
		orders.Scan()
		cancel()
		wg.Wait()
		if err != nil {
			return err
		}
		fmt.Println(bytes)
	}
	return nil
}

// opener implements statesync.Opener.
type opener struct{ net *p2p.Network }

func (o opener) Open(ctx context.Context, p slot.PeerID) (wire.Stream, error) {
	return o.net.Open(ctx, p, p2p.ProtocolState)
}

// fetch fetches the state again and again, and returns the bytes that came until ctx ended.
func (t joinerTask) fetch(ctx context.Context, o opener) (bytes int64, err error) {
	from := func() []slot.PeerID { return []slot.PeerID{t.Donor} }
	target := statesync.Target{Height: 1, Slot: 1, Root: t.Root}
	dir := filepath.Join(t.Dir, "state")
	for ctx.Err() == nil {
		if err := os.RemoveAll(dir); err != nil {
			return bytes, err
		}
		store, err := checkpoint.Open(dir, checkpoint.Config{Shape: t.Shape, FrameBytes: 1 << 18})
		if err != nil {
			return bytes, err
		}
		_, report, err := statesync.NewClient(o, statesync.Config{}).FetchState(ctx, store, []statesync.Target{target},
			from, nil)
		bytes += report.Bytes
		if err != nil && ctx.Err() == nil {
			return bytes, err
		}
	}
	return bytes, nil
}
