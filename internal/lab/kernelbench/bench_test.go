package kernelbench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

func TestRun(t *testing.T) {
	before := kernel.Fast()
	var progress bytes.Buffer
	r, err := Run(t.Context(), Config{Elements: 1 << 10, Rounds: 2}, &progress)
	if err != nil {
		t.Fatal(err)
	}
	if kernel.Fast() != before {
		t.Errorf("the fast path was %v before, and is %v now", before, kernel.Fast())
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"mean n=32", "trimmed mean n=8 k=1", "step nesterov", "step adam", "pseudo-gradient",
		"bounded", "squared norm", "encode f32", "hash blake3, frames", "decode int8", "compress s2", "compress zstd",
	} {
		if !strings.Contains(string(b), `"name":"`+name) {
			t.Errorf("%s was not measured", name)
		}
	}
	for _, k := range r.Kernels {
		good := func(v float64) bool { return v > 0 && !math.IsInf(v, 0) }
		if !good(k.Rate) || !good(k.Copy) || !good(k.Share) || k.Least > k.Rate || k.Most < k.Rate || k.Plain != nil &&
			!good(*k.Plain) {
			t.Errorf("%+v", k)
		}
	}
	var text bytes.Buffer
	r.Print(&text)
	if got := strings.Count(text.String(), "\n"); got != len(r.Kernels)+3 {
		t.Errorf("%d lines for %d kernels:\n%s", got, len(r.Kernels), &text)
	}
}

func TestRunStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Config{Elements: 1 << 10, Rounds: 1}, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
