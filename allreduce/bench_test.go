//go:build unix

package allreduce

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// BenchmarkRotation reduces 64 MiB among 4 peers in one process. wire/ideal is the bytes a peer
// sends, all headers and hashes included, over 2(N-1)/N of its vector. cpu-s/GB is the process's
// CPU time for each GB that is sent: what holds when the machine is busy with other things.
func BenchmarkRotation(b *testing.B) {
	for _, kind := range []string{"memory", "tcp"} {
		for _, a := range []Aggregator{Mean, TrimmedMean} {
			b.Run(kind+"/"+string(a), func(b *testing.B) { benchmarkSchedule(b, kind, a, false) })
		}
	}
}

func benchmarkSchedule(b *testing.B, kind string, a Aggregator, ring bool) {
	const n, elements = 4, 16 << 20
	p := testParams(elements, 1<<18)
	p.Aggregator, p.Clip = a, a.DefaultClip()
	g := newGroup(b, p, n, rand.New(rand.NewPCG(1, 1)))
	if ring {
		g.plan.Ring = []uint16{0, 1, 2, 3}
	}
	g.net.size = 4 << 20
	if kind == "tcp" {
		g.useTCP()
	}
	b.SetBytes(4 * elements)
	b.ReportAllocs()
	var sent, slots uint64
	start := cpuTime(b)
	for b.Loop() {
		g.startAll()
		g.wait()
		for _, r := range g.running {
			r.Release()
			s, _ := r.Traffic()
			sent += s
		}
		g.plan.Height++
		g.plan.Opened.Height++
		slots++
	}
	ideal := 2.0 * (n - 1) / n * 4 * elements
	b.ReportMetric((cpuTime(b)-start).Seconds()/(float64(sent)/1e9), "cpu-s/GB")
	b.ReportMetric(float64(sent)/float64(slots*n)/ideal, "wire/ideal")
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// useTCP connects the engines over loopback, a connection for each stream.
func (g *group) useTCP() {
	t := &tcpNet{addrs: make(map[slot.PeerID]string)}
	for i, e := range g.engines {
		var serving sync.WaitGroup
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			g.t.Fatal(err)
		}
		g.t.Cleanup(func() { _ = l.Close(); serving.Wait() })
		t.addrs[peerName(i)] = l.Addr().String()
		e.cfg.Transport = tcpTransport{t, byte(i)}
		serving.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				serving.Go(func() {
					var from [1]byte // stands for the handshake
					if _, err := c.Read(from[:]); err == nil {
						_ = e.Accept(peerName(int(from[0])), tcpStream{c.(*net.TCPConn)})
					}
				})
			}
		})
	}
}

type tcpNet struct{ addrs map[slot.PeerID]string }

type tcpTransport struct {
	net  *tcpNet
	self byte
}

func (t tcpTransport) Open(ctx context.Context, peer slot.PeerID) (wire.Stream, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", t.net.addrs[peer])
	if err != nil {
		return nil, err
	}
	_, err = c.Write([]byte{t.self})
	return tcpStream{c.(*net.TCPConn)}, err
}

type tcpStream struct{ *net.TCPConn }

func (s tcpStream) Reset() error {
	_ = s.SetLinger(0)
	return s.Close()
}

// BenchmarkRing is BenchmarkRotation in schedule ring. A trimmed mean carries up to 2k+1 lanes: its
// ideal is not a mean's.
func BenchmarkRing(b *testing.B) {
	for _, kind := range []string{"memory", "tcp"} {
		for _, a := range []Aggregator{Mean, TrimmedMean} {
			b.Run(kind+"/"+string(a), func(b *testing.B) { benchmarkSchedule(b, kind, a, true) })
		}
	}
}
