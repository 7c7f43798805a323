package bench

import (
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

func TestQuantiles(t *testing.T) {
	for _, c := range []struct {
		x              []float64
		median, ninety float64
	}{
		{[]float64{7}, 7, 7},
		{[]float64{9, 1, 4}, 4, 9},
		{[]float64{9, 1, 4, 2}, 3, 9},
		{[]float64{10, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 5.5, 9},
	} {
		before := slices.Clone(c.x)
		if m, q := Median(c.x), Quantile(c.x, .9); m != c.median || q != c.ninety {
			t.Errorf("%v: median %v, quantile %v", c.x, m, q)
		}
		if !slices.Equal(c.x, before) {
			t.Errorf("%v was sorted in place", before)
		}
	}
}

func TestText(t *testing.T) {
	for got, want := range map[string]string{
		Seconds(.0123): "12.3 ms", Seconds(2): "2.00 s",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestLoopback(t *testing.T) {
	p, err := Open(t.Context(), 3, Links{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"}
	if got := swarm.Listen(p, 2, p2p.TransportTCP, p2p.TransportQUIC); !slices.Equal(got, want) {
		t.Errorf("listens on %q", got)
	}
	if cmd := swarm.Command(p, 1, "/bin/true", "-x"); !slices.Equal(cmd.Args, []string{"/bin/true", "-x"}) {
		t.Errorf("command %q", cmd.Args)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
