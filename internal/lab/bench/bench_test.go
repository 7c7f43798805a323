package bench

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
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

// TestReport: what is printed is Go's format, and the table has medians, ratios and goals.
func TestReport(t *testing.T) {
	const name, mpi, slow = "AllReduce/peers=4/size=1MiB/mean", "MPI/peers=4/size=1MiB",
		"AllReduce/peers=4/size=32MiB/mean/rate=200mbit"
	var b strings.Builder
	r := Report{Out: &b}
	r.Say("links", "%s", Place{}.Links())
	for turn, seconds := range []float64{.004, .002, .009} {
		r.Add(turn, name, "sec/op sent-B", seconds, 2e6)
		r.Add(turn, name, "sec/op", 3*seconds)
		if turn != 1 {
			r.Add(turn, mpi, "sec/op", .001)
		}
	}
	r.Add(0, slow, "sec/op", 2.2)
	r.Add(0, slow, "peak-vectors", 15.31)
	r.Ratio(name, mpi, "sec/op", "mpi")
	r.Ratio(name, mpi, "sent-B", "mpi")
	if x := r.Samples(name, "sec-x-mpi"); !slices.Equal(x, []float64{8, 18}) {
		t.Errorf("ratios of turns %v", x)
	}
	r.Table()
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"links: loopback Benchmark" + name + "-", "1 0.004 sec/op 2e+06 sent-B",
		name + " sec/op 7.5 ms 2 ms 27 ms 6 <= 0.005: missed sent-B 2 MB", "3 sec-x-mpi 13 8 18 2 " + mpi,
		slow + " sec/op 2.2 s 2.2 s 2.2 s 1 <= 2.148: missed peak-vectors 15.3 D 15.3 D 15.3 D 1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}

// TestGoals: each goal is met at its limit and missed above it, and holds for what it names alone.
func TestGoals(t *testing.T) {
	n := 0
	for g := range strings.Lines(goals) {
		f := strings.Fields(g)
		if f[0] == "#" {
			continue
		}
		n++
		limit, err := strconv.ParseFloat(f[len(f)-1], 64)
		// .* is anything, of ( | ) the first is taken, and what ? leaves out is left out
		name := strings.NewReplacer(".*", "x/y", `\.`, ".", "[^/]+", "int4", "(/links)?", "", "(/f32)?", "").
			Replace(f[0])
		name = regexp.MustCompile(`\(([^|]*)[^)]*\)`).ReplaceAllString(name, "$1")
		if met, missed := Judge(name, f[1], limit), Judge(name, f[1], limit+1e-6); err != nil || len(f) != 3 ||
			!strings.HasSuffix(met, ": met") || !strings.HasSuffix(missed, ": missed") {
			t.Errorf("%s at its limit is %q, and above it %q", g, met, missed)
		}
		if other := Judge("No"+name, f[1], limit) + Judge(name, "no-"+f[1], limit); other != "" {
			t.Errorf("%s is for others, too: %s", g, other)
		}
		if bad := Judge(name, f[1], math.NaN()); !strings.HasSuffix(bad, ": missed") {
			t.Errorf("%s without a figure is %q", g, bad)
		}
	}
	if n < 25 {
		t.Errorf("%d goals", n)
	}
}

// TestPlace: what is asked of links is what they are.
func TestPlace(t *testing.T) {
	var f sources.Faults
	(Place{Peers: 65, RTT: 3 * time.Second}).Check(&f)
	if len(f) != 2 || (Place{Rate: 1}).Loopback() {
		t.Error(f)
	}
}

func TestLoopback(t *testing.T) {
	p, err := Place{}.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"}
	if got := lab.Listen(p, 2, "tcp", "quic"); !slices.Equal(got, want) {
		t.Errorf("listens on %q", got)
	}
	if cmd := lab.Command(p, 1, "/bin/true", "-x"); !slices.Equal(cmd.Args, []string{"/bin/true", "-x"}) {
		t.Errorf("command %q", cmd.Args)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
