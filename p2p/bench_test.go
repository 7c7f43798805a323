//go:build unix

package p2p

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// BenchmarkBulk sends 64 MiB one way on each of some streams at once, in Writes of 256 KiB, read in
// 256 KiB, each stream between two Networks of its own in this process. cpu-s/GB is the process's
// CPU time for each GB, both sides together: what holds when the machine is busy with other things.
// plain is TCP without encryption.
func BenchmarkBulk(b *testing.B) {
	ways := []struct {
		name   string
		change func(*Config)
		bulk   bool
	}{
		{"bulk", nil, true},
		{"yamux-tls", nil, false},
		{"quic", func(c *Config) {
			c.Listen = []string{"/ip4/127.0.0.1/udp/0/quic-v1"}
		}, false},
	}
	for _, pairs := range []int{1, 4} {
		b.Run(fmt.Sprintf("plain/pairs=%d", pairs), func(b *testing.B) { benchmarkStreams(b, plainStreams(b, pairs)) })
		for _, w := range ways {
			b.Run(fmt.Sprintf("%s/pairs=%d", w.name, pairs), func(b *testing.B) {
				benchmarkStreams(b, networkStreams(b, pairs, w.change, w.bulk))
			})
		}
	}
}

const (
	benchBytes = 64 << 20
	benchChunk = 256 << 10
)

// oneWay is both ends of a stream.
type oneWay struct {
	in  io.Writer
	out io.Reader
}

func benchmarkStreams(b *testing.B, streams []oneWay) {
	b.SetBytes(benchBytes * int64(len(streams)))
	start := cpuTime(b)
	var total int64
	for b.Loop() {
		var moving sync.WaitGroup
		for _, s := range streams {
			moving.Go(func() { write(b, s.in) })
			moving.Go(func() { read(b, s.out) })
		}
		moving.Wait()
		total += benchBytes * int64(len(streams))
	}
	b.ReportMetric((cpuTime(b)-start).Seconds()/(float64(total)/1e9), "cpu-s/GB")
}

func write(b *testing.B, w io.Writer) {
	chunk := make([]byte, benchChunk)
	for range benchBytes / benchChunk {
		if _, err := w.Write(chunk); err != nil {
			b.Error(err)
			return
		}
	}
}

func read(b *testing.B, r io.Reader) {
	chunk := make([]byte, benchChunk)
	for range benchBytes / benchChunk {
		if _, err := io.ReadFull(r, chunk); err != nil {
			b.Error(err)
			return
		}
	}
}

func plainStreams(b *testing.B, pairs int) (streams []oneWay) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it has served
	for range pairs {
		in, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		out, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _, _ = in.Close(), out.Close() })
		streams = append(streams, oneWay{in, out})
	}
	return streams
}

func networkStreams(b *testing.B, pairs int, change func(*Config), bulk bool) (streams []oneWay) {
	for range pairs {
		x, y := tcpPair(b, change)
		got := make(chan wire.Stream)
		done := make(chan struct{})
		b.Cleanup(func() { close(done) })
		y.Handle(ProtocolExchange, func(_ slot.PeerID, s wire.Stream) {
			got <- s
			<-done
		})
		open := x.Open
		if bulk {
			open = x.OpenBulk
		}
		in, err := open(context.Background(), y.ID(), ProtocolExchange)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := in.Write(nil); err != nil { // sends the lazy negotiation
			b.Fatal(err)
		}
		streams = append(streams, oneWay{in, <-got})
		b.Cleanup(func() { _ = in.Reset() })
		if want := x.Host().Network().ConnsToPeer(peer.ID(y.ID())); len(want) == 0 {
			b.Fatal("not connected")
		}
	}
	return streams
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
