//go:build unix

package builtin

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/statesync"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// BenchmarkBesideAJoiner is the rate of inner steps of a peer that serves its state to a joiner, over the rate when it does not:
// rounds of two seconds each, turn by turn, all cores training. The peer serves at Config.StateBytesPerSecond's default, over TCP with TLS
// on loopback. The joiner is in this process: what it does counts, too, so a donor's true loss is about half of what is seen. On a
// machine that others use, %-of-all-cores still tells what the transfer costs.
//
//	go test -run xxx -bench BesideAJoiner -benchtime 10x ./bridge/builtin
func BenchmarkBesideAJoiner(b *testing.B) {
	perCore := int64(4_000_000) // p2pdiloco.Config.StateBytesPerSecond's default
	j := serve(b, perCore*int64(runtime.GOMAXPROCS(0)))
	t := newTestTrainer(b, Config{Threads: runtime.GOMAXPROCS(0)})
	data := newSampler(t.corpus, p2pdiloco.Task{Seed: 1, Slot: 1, Self: "a"})
	const round = 2 * time.Second
	train := func() (steps float64) {
		for began := time.Now(); time.Since(began) < round; steps++ {
			if _, err := t.step(data); err != nil {
				b.Fatal(err)
			}
		}
		return steps
	}
	var alone, beside, bytes, cpuAlone, cpuBeside float64
	dir := b.TempDir()
	for b.Loop() {
		at := cpuSeconds(b)
		alone += train()
		cpuAlone += cpuSeconds(b) - at
		at = cpuSeconds(b)
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			n, err := j.fetch(ctx, filepath.Join(dir, "state"))
			if bytes += float64(n); err != nil {
				b.Error(err)
			}
		})
		beside += train()
		cancel()
		wg.Wait()
		cpuBeside += cpuSeconds(b) - at
	}
	serving := cpuBeside - cpuAlone*beside/alone
	b.ReportMetric(beside/alone, "rate-with/without-joiner")
	b.ReportMetric(alone/float64(b.N)/round.Seconds(), "steps/s-alone")
	b.ReportMetric(100*serving/(float64(b.N)*round.Seconds()*float64(runtime.GOMAXPROCS(0))), "%-of-all-cores")
	b.ReportMetric(serving/bytes*1e9, "CPU-s/GB-both-sides")
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

// serve serves a state of 64 MiB over a network of its own, and makes a joiner that knows it.
func serve(b *testing.B, rate int64) *joiner {
	b.Helper()
	v := make([]float32, 16<<20)
	noise := rand.New(rand.NewPCG(1, 2))
	for i := range v {
		v[i] = float32(noise.NormFloat64())
	}
	store, err := checkpoint.Open(b.TempDir(), checkpoint.Config{Shape: checkpoint.Shape{Elements: uint64(len(v))}, FrameBytes: 1 << 18})
	if err != nil {
		b.Fatal(err)
	}
	root := checkpoint.StateRoot(1, v)
	if err := store.Save(1, 1, root, v); err != nil {
		b.Fatal(err)
	}
	var nets [2]*p2p.Network
	for i := range nets {
		cfg := p2p.LAN()
		cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
		if i > 0 {
			cfg.Bootstrap = nets[0].Addrs()
		}
		if nets[i], err = p2p.New(b.Context(), cfg); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = nets[i].Close() })
	}
	server := statesync.NewServer(store, statesync.ServerConfig{BytesPerSecond: rate})
	b.Cleanup(func() { _ = server.Close() })
	nets[0].Handle(p2p.ProtocolState, server.Serve)
	return &joiner{nets[1], nets[0].ID(), statesync.Target{Height: 1, Slot: 1, Root: root}, store.Shape()}
}

// joiner fetches a state again and again.
type joiner struct {
	net    *p2p.Network
	donor  slot.PeerID
	target statesync.Target
	shape  checkpoint.Shape
}

// Open implements statesync.Opener.
func (j *joiner) Open(ctx context.Context, p slot.PeerID) (wire.Stream, error) {
	return j.net.Open(ctx, p, p2p.ProtocolState)
}

// fetch returns the bytes that came until ctx ended.
func (j *joiner) fetch(ctx context.Context, dir string) (bytes int64, err error) {
	from := func() []slot.PeerID { return []slot.PeerID{j.donor} }
	for ctx.Err() == nil {
		if err := os.RemoveAll(dir); err != nil {
			return bytes, err
		}
		store, err := checkpoint.Open(dir, checkpoint.Config{Shape: j.shape, FrameBytes: 1 << 18})
		if err != nil {
			return bytes, err
		}
		_, report, err := statesync.NewClient(j, statesync.Config{}).FetchState(ctx, store, []statesync.Target{j.target}, from, nil)
		bytes += report.Bytes
		if err != nil && ctx.Err() == nil {
			return bytes, err
		}
	}
	return bytes, nil
}
