package bench

import (
	"io"
	"net"
	"net/rpc"
	"slices"
	"strings"
	"testing"
	"time"
)

func sampleConfig() StepConfig {
	c := Case{Alone: true, Place: Place{Peers: 4}, Bytes: 32 << 20}
	c.Spec.Aggregator = "mean"
	return StepConfig{Slots: 25, Cases: []Case{c}}
}

func TestValidate(t *testing.T) {
	if err := sampleConfig().Validate(); err != nil {
		t.Error(err)
	}
	c := Case{Place: Place{Peers: 1, RTT: -1}, Bytes: 1 << 40}
	var flags []string
	for line := range strings.Lines(StepConfig{Cases: []Case{c}, Against: "mpi"}.Validate().Error()) {
		flags = append(flags, strings.Fields(line)[0])
	}
	want := []string{"--slots", "--peers", "--rtt", "--size", "--against"}
	if !slices.Equal(flags, want) {
		t.Errorf("faults of %q", flags)
	}
	if got := sampleConfig().turns(); !slices.Equal(got, []uint64{20, 5}) {
		t.Errorf("turns of %v slots", got)
	}
}

// TestStepGoals: the cases of docs/why/performance.md have the goals that are told there.
func TestStepGoals(t *testing.T) {
	with := func(change func(*Case)) string {
		c := sampleConfig().Cases[0]
		c.Bytes = 64 << 20
		change(&c)
		return c.name()
	}
	slow := func(c *Case) { c.Rate = 200e6 }
	far := func(c *Case) {
		c.Transport, c.Bytes, c.Rate, c.RTT = "quic", 256<<20, 200e6, 100*time.Millisecond
	}
	whole := func(c *Case) { c.Alone, c.Spec.Aggregator, c.Spec.Trust = false, "", "byzantine" }
	crash := func(c *Case) { whole(c); c.Spec.Trust = "crash" }
	for key, want := range map[[2]string]string{
		{with(func(*Case) {}), "sec-x-mpi"}:                                         "1.5",
		{with(func(c *Case) { c.Spec.Codec = "f32" }), "cpu-sec/GB"}:                "0.80",
		{with(func(c *Case) { c.Spec.Aggregator = "trimmed_mean" }), "sec-x-first"}: "1.05",
		{with(func(c *Case) { c.Spec.Codec = "int8" }), "sec-x-first"}:              "0.45",
		{with(func(c *Case) { c.Bytes = 1 << 20 }), "sec/op"}:                       "0.005",
		{with(func(c *Case) { c.Bytes = 32 << 20; slow(c) }), "sec/op"}:             "2.148",
		{with(far), "sec/op"}:                                         "19.05",
		{with(func(*Case) {}), "peak-vectors"}:                        "5.34",
		{with(func(c *Case) { c.Bytes = 256 << 20 }), "peak-vectors"}: "3.58",
		{with(whole), "cpu-sec-x-first"}:                              "1.10",
		{with(crash), "cpu-sec-x-floor"}:                              "1.2",
	} {
		if got := Judge(key[0], key[1], 0); got != "<= "+want+": met" {
			t.Errorf("%s in %s: %q, want %s", key[0], key[1], got, want)
		}
	}
}

// scripted is a peer that reduces n times in n-1 seconds or in one, whose fourth outcome may be
// another one.
type scripted struct {
	quick bool
	last  byte
}

func (s scripted) Start(Order, *Offered) error   { return nil }
func (s scripted) Connect(Plan, *struct{}) error { return nil }

func (s scripted) Reduce(height uint64, seconds *float64) error {
	if *seconds = float64(height - 1); s.quick {
		*seconds = 1
	}
	return nil
}

func (s scripted) End(height uint64, r *Reduced) error {
	*r = Reduced{CPU: 1, Sent: 1e9, Memory: float64(uint(1) << (19 + height))}
	if height == 4 {
		r.Outcome[0] = s.last
	}
	return nil
}

// TestReductions: a reduction takes as long as the slowest peer, and all peers have one outcome.
func TestReductions(t *testing.T) {
	of := func(last byte) (r Report, err error) {
		var peers []calledPeer
		for _, s := range []scripted{{quick: true}, {last: last}} {
			here, there := net.Pipe()
			server := rpc.NewServer()
			if err := server.RegisterName("Alone", s); err != nil {
				t.Fatal(err)
			}
			go server.ServeConn(there)
			client := rpc.NewClient(here)
			defer client.Close()
			peers = append(peers, calledPeer{Client: client})
		}
		c := sampleConfig().Cases[0]
		c.Peers, r.Out = 2, io.Discard
		all := &turn{Case: c, report: &r, slots: 2, ctx: t.Context(), peers: peers, orders: make([]Order, 2)}
		return r, all.reductions()
	}
	r, err := of(0)
	const name = "AllReduce/peers=2/size=32MiB/mean"
	for unit, want := range map[string][]float64{"sec/op": {2, 3}, "cpu-sec/GB": {1, 1}, "peak-vectors": {.25}} {
		if x := r.Samples(name, unit); err != nil || !slices.Equal(x, want) {
			t.Errorf("%s: %v, want %v; %v", unit, x, want, err)
		}
	}
	if _, err := of(1); err == nil || !strings.Contains(err.Error(), "reduction 4: peer 2 has another outcome") {
		t.Errorf("got %v", err)
	}
}

// TestPreset: peers have the timing that users have at their distance.
func TestPreset(t *testing.T) {
	for rtt, want := range map[time.Duration]string{0: "lan", 19: "lan", 20: "wan"} {
		if got := (Case{Place: Place{RTT: rtt * time.Millisecond}}).preset(); got != want {
			t.Errorf("%d ms: preset %s", rtt, got)
		}
	}
}
