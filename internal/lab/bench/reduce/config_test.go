package reduce

import (
	"strings"
	"testing"
	"time"
)

func sampleConfig() Config { return Config{Case: Default(), Iters: 3} }

func TestValidate(t *testing.T) {
	if err := sampleConfig().Validate(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*Config){
		"--peers 1: allowed: 2 to":           func(c *Config) { c.Members = 1 },
		"--elements 0: allowed: 1 to":        func(c *Config) { c.Elements = 0 },
		"--iters -1: allowed: 1 to":          func(c *Config) { c.Iters = -1 },
		"--schedule x: allowed: ":            func(c *Config) { c.Schedule = "x" },
		"--aggregator max: allowed: mean":    func(c *Config) { c.Aggregator = "max" },
		"--codec f64: allowed: ":             func(c *Config) { c.Codec = "f64" },
		"--security none: allowed: tls":      func(c *Config) { c.Security = "none" },
		"--transport udp: allowed: tcp":      func(c *Config) { c.Transport = "udp" },
		"--against gloo: allowed: mpi":       func(c *Config) { c.Against = "gloo" },
		"--against mpi: it runs on loopback": func(c *Config) { c.Against, c.Namespaces = MPI, true },
		"--rate 5mbit: it is of links":       func(c *Config) { c.Rate = 5e6 },
		"--delay 2s: allowed: 0 to 1s":       func(c *Config) { c.Delay, c.Namespaces = 2*time.Second, true },
		"--delay 1ms: it is of links":        func(c *Config) { c.Delay = time.Millisecond },
		"--frame 8388608: ":                  func(c *Config) { c.Frame = 8 << 20 },
	} {
		c := sampleConfig()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Frames are those that a run of that size has.
func TestFrame(t *testing.T) {
	for elements, want := range map[uint64]uint64{1: 1 << 10, 1 << 16: 1 << 10, 1 << 18: 1 << 12, 16 << 20: 1 << 16} {
		if got := (Case{Elements: elements}).frame(); got != want {
			t.Errorf("%d elements: frames of %d, want %d", elements, got, want)
		}
	}
}
