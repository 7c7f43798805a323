package bench

import (
	"slices"
	"strings"
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

// TestReport: what is printed is Go's format, and the table has medians and goals.
func TestReport(t *testing.T) {
	var r Report
	r.Say("links", "%s", Links{})
	for i, seconds := range []float64{.004, .002, .009} {
		r.Add("AllReduce/peers=4/size=1MiB", uint64(i+1), Value{seconds, "sec/op"}, Value{2e6, "sent-B"})
	}
	r.Add("AllReduce/peers=4/size=32MiB/rate=200mbit", 1, Value{1.04, "x-ideal"})
	var b strings.Builder
	r.Print(&b)
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"links: loopback BenchmarkAllReduce/peers=4/size=1MiB-", "1 0.004 sec/op 2e+06 sent-B",
		"sec/op 4.0 ms 2.0 ms 9.0 ms 9.0 ms 3 <= 0.005: met", "sent-B 2.0 MB", "<= 1.03: missed",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}

// TestGoalsAreRead: each line is a remark or a goal that some name can have.
func TestGoalsAreRead(t *testing.T) {
	for g := range strings.Lines(goals) {
		f := strings.Fields(g)
		if f[0] == "#" {
			continue
		}
		if len(f) != 4 || judge(strings.ReplaceAll(f[0], "*", "x"), f[1], 1) == "" {
			t.Errorf("no goal: %s", g)
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
