package lab

import (
	"io"
	"net"
	"testing"
	"time"
)

// BenchmarkTCP is the rate of one connection between two nodes' kernels, 64 MiB a round: `go test
// -run xxx -bench TCP ./internal/lab`, as root. The first round opens the connection's window and
// is not counted.
func BenchmarkTCP(b *testing.B) {
	for _, kind := range []struct {
		name string
		link Link
	}{
		{"unlimited", Link{}},
		{"200Mbit/RTT=100ms", Link{Rate: 200e6, Delay: 25 * time.Millisecond}},
		{"1Gbit/RTT=20ms", Link{Rate: 1e9, Delay: 5 * time.Millisecond}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			l, err := New(b.Context(), Config{Nodes: 2, Link: kind.link, Name: "labtest"})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			from, to := connect(b, &l.Hosts)
			go func() { _, _ = io.Copy(from, zeros{}) }() // until the connection is closed
			receive(b, to)
			b.SetBytes(received)
			for b.Loop() {
				receive(b, to)
			}
			b.ReportMetric(float64(b.N)*received*8/1e6/b.Elapsed().Seconds(), "Mbit/s")
		})
	}
}

const received = 64 << 20

func receive(b *testing.B, conn net.Conn) {
	if _, err := io.CopyN(io.Discard, conn, received); err != nil {
		b.Fatal(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// BenchmarkRoundTrip is a byte there and back between kernels over a link of 25 ms: 100 ms and what
// the forwarder adds.
func BenchmarkRoundTrip(b *testing.B) {
	l, err := New(b.Context(), Config{Nodes: 2, Link: Link{Rate: 200e6, Delay: 25 * time.Millisecond}, Name: "labtest"})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	from, to := connect(b, &l.Hosts)
	go func() { _, _ = io.Copy(to, to) }()
	one := make([]byte, 1)
	for b.Loop() {
		if _, err := from.Write(one); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(from, one); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWires is BenchmarkTCP over the kernel's links.
func BenchmarkWires(b *testing.B) {
	w, err := NewWires(b.Context(), Config{Nodes: 2, Link: Link{Rate: 200e6}, Name: "wirestest"})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	from, to := connect(b, w)
	go func() { _, _ = io.Copy(from, zeros{}) }()
	receive(b, to)
	b.SetBytes(received)
	for b.Loop() {
		receive(b, to)
	}
	b.ReportMetric(float64(b.N)*received*8/1e6/b.Elapsed().Seconds(), "Mbit/s")
}
