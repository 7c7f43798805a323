package step

import (
	"bytes"
	"encoding/gob"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

func sampleConfig() Config {
	c := Case{Alone: true, Peers: 4, Bytes: 32 << 20}
	c.Spec.Aggregator = "mean"
	return Config{Slots: 25, Cases: []Case{c}}
}

func TestValidate(t *testing.T) {
	if err := sampleConfig().Validate(); err != nil {
		t.Error(err)
	}
	c := Case{Peers: 1, Bytes: 1 << 40, Links: bench.Links{RTT: -1}}
	var flags []string
	for line := range strings.Lines(Config{Cases: []Case{c}, MPI: true}.Validate().Error()) {
		flags = append(flags, strings.Fields(line)[0])
	}
	if want := []string{"--slots", "--peers", "--size", "--rtt", "--against"}; !slices.Equal(flags, want) {
		t.Errorf("faults of %q", flags)
	}
	if got := sampleConfig().turns(); !slices.Equal(got, []uint64{10, 10, 5}) {
		t.Errorf("turns of %v slots", got)
	}
}

// The ideal of 32 MiB among four over 200 Mbit/s: 48 MiB a peer, and 52 bytes of headers a packet
// of 1500.
func TestIdeal(t *testing.T) {
	c := sampleConfig().Cases[0]
	if c.ideal() != 0 {
		t.Error("without a rate there is an ideal")
	}
	c.Links.Rate = 200e6
	if got := c.ideal(); got < 2.0855 || got > 2.0856 || c.name() != "AllReduce/peers=4/size=32MiB/mean/rate=200mbit" {
		t.Errorf("%s: %v s", c.name(), got)
	}
}

// TestGoals: the cases of docs/performance.md have the goals that are told there.
func TestGoals(t *testing.T) {
	with := func(change func(*Case)) string {
		c := Case{Alone: true, Peers: 4, Bytes: 64 << 20}
		c.Spec.Aggregator = "mean"
		change(&c)
		return c.name()
	}
	slow := func(c *Case) { c.Links.Rate = 200e6 }
	far := func(c *Case) {
		c.Transport, c.Bytes, c.Links = "quic", 256<<20, bench.Links{Rate: 200e6, RTT: 100 * time.Millisecond}
	}
	for key, want := range map[[2]string]string{
		{with(func(*Case) {}), "sec-x-mpi"}:                                         "1.5",
		{with(func(c *Case) { c.Spec.Codec = "f32" }), "cpu-sec/GB"}:                "0.80",
		{with(func(c *Case) { c.Spec.Aggregator = "trimmed_mean" }), "sec-x-first"}: "1.05",
		{with(func(c *Case) { c.Spec.Codec = "int8" }), "sec-x-first"}:              "0.45",
		{with(func(c *Case) { c.Bytes = 1 << 20 }), "sec/op"}:                       "0.005",
		{with(func(c *Case) { c.Bytes = 32 << 20; slow(c) }), "x-ideal"}:            "1.03",
		{with(far), "x-ideal"}:               "1.176",
		{with(func(*Case) {}), "peak-share"}: "1",
		{with(func(c *Case) { c.Alone, c.Spec.Aggregator, c.Spec.Trust = false, "", "byzantine" }), "cpu-sec-x-first"}: "1.10",
	} {
		if got := bench.Judge(key[0], key[1], 0); got != "<= "+want+": met" {
			t.Errorf("%s in %s: %q, want %s", key[0], key[1], got, want)
		}
	}
}

// scripted are processes that answer what a list says, without being any.
func scripted(t *testing.T, lists ...[]answer) *peers {
	t.Helper()
	p := &peers{}
	for _, list := range lists {
		var b bytes.Buffer
		for e := gob.NewEncoder(&b); len(list) > 0; list = list[1:] {
			if err := e.Encode(list[0]); err != nil {
				t.Fatal(err)
			}
		}
		p.all = append(p.all, &process{orders: gob.NewEncoder(io.Discard), answers: gob.NewDecoder(&b)})
	}
	return p
}

// TestReductions: a reduction takes as long as the slowest peer, and all peers have one outcome.
func TestReductions(t *testing.T) {
	of := func(last byte) (*bench.Report, error) {
		var a, b []answer
		a, b = append(a, answer{}), append(b, answer{})
		for n := range 4 {
			end := answer{CPU: 1, Sent: 1e9, Memory: 1 << uint(20+n)}
			other := end
			if n == 3 {
				other.Outcome[0] = last
			}
			a, b = append(a, answer{Seconds: 1}, end), append(b, answer{Seconds: float64(n)}, other)
		}
		c := sampleConfig().Cases[0]
		c.Peers = 2
		var r bench.Report
		return &r, reductions(scripted(t, a, b), &r, order{Case: c, Run: "r", Slots: 2}, 0, []answer{{}, {}})
	}
	r, err := of(0)
	const name = "AllReduce/peers=2/size=32MiB/mean"
	if x := r.Samples(name, "sec/op"); err != nil || !slices.Equal(x, []float64{2, 3}) {
		t.Errorf("seconds %v, %v", x, err)
	}
	if x := r.Samples(name, "cpu-sec/GB"); !slices.Equal(x, []float64{1, 1}) {
		t.Errorf("CPU %v", x)
	}
	if x := r.Samples(name, "peak-vectors"); !slices.Equal(x, []float64{.25}) {
		t.Errorf("memory %v", x)
	}
	if _, err := of(1); err == nil || !strings.Contains(err.Error(), "reduction 4: peer 2 has another outcome") {
		t.Errorf("got %v", err)
	}
}

// TestPreset: peers have the timing that users have at their distance.
func TestPreset(t *testing.T) {
	for rtt, want := range map[time.Duration]string{0: "lan", 19 * time.Millisecond: "lan", 20 * time.Millisecond: "wan"} {
		if got := (Case{Links: bench.Links{RTT: rtt}}).preset(); got != want {
			t.Errorf("%v: preset %s", rtt, got)
		}
	}
}
