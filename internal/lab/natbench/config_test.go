package natbench

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/nat"
)

func TestValidateReportsAllFaults(t *testing.T) {
	c := Config{Kinds: lab.Names[nat.Kind]{"public", "moat", "public"}, Size: 7, Delay: -1}
	c.Limit, c.Preset = time.Second, "moon"
	err := c.Validate()
	for _, want := range []string{
		"--kinds moat: allowed: each once of public,full-cone,", "--kinds public", "--size 7",
		"--delay -1ns", "--limit 1s: allowed: 5s", "--preset moon",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(Default().Kinds, nat.Kinds) {
		t.Error("a kind is not measured")
	}
}

// TestModelIsAsLarge: it holds the bytes that were asked for, and not many more.
func TestModelIsAsLarge(t *testing.T) {
	for _, size := range []uint64{minSize, 4 << 20, 32 << 20} {
		if text, n := model(size); 4*n < size || 4*n > size+size/20 {
			t.Errorf("%s has %d parameters for %d bytes", text, n, size)
		}
	}
}
