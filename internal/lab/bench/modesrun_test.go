package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// stub is a bench whose rows are not trained.
type stub struct {
	ModesConfig
	made []string // rows that were, with their seeds
	fail string   // row
}

func (s *stub) run(ctx context.Context) (out string, err error) {
	var b strings.Builder
	r := &Report{Out: &b}
	s.made = nil
	err = s.fill(ctx, r, func(_ context.Context, row row, seed uint64) (result, error) {
		if row.name == s.fail {
			return result{}, errors.New("it failed\nat length")
		}
		s.made = append(s.made, row.name+"/"+string(rune('0'+seed)))
		end := point{2, 2, float64(8 * len(row.name)), 6}
		return result{
			figures: map[string]float64{"loss": float64(len(row.name)), "sent-B": 8, "payload-B": 4},
			curve:   []point{{1, 3, 4, 5}, end, end},
		}, nil
	})
	r.Table()
	return b.String(), err
}

func newStub(t *testing.T, rows ...string) *stub {
	t.Helper()
	s := &stub{ModesConfig: modesConfig()}
	s.Rows, s.Dir, s.Seeds = rows, t.TempDir(), 2
	return s
}

// TestFailures: a row that fails in a seed is named, and the others are measured.
func TestFailures(t *testing.T) {
	s := newStub(t, "sync", "sync.int4")
	s.fail = "sync.int4"
	out, err := s.run(t.Context())
	if want := "not-run: sync.int4 with seed 2: it failed\n"; err == nil || !strings.Contains(out, want) {
		t.Errorf("%v, and no %q in\n%s", err, want, out)
	}
	if want := []string{"data-parallel/1", "sync/1", "data-parallel/2", "sync/2"}; !slices.Equal(s.made, want) {
		t.Errorf("it made %q", s.made)
	}
}

// TestInterrupted: a bench that was stopped says of each cell that it was not run.
func TestInterrupted(t *testing.T) {
	s := newStub(t, "sync")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, err := s.run(ctx)
	if !errors.Is(err, context.Canceled) || strings.Count(out, "not-run: ") != 4 || s.made != nil {
		t.Errorf("%v, made %q:\n%s", err, s.made, out)
	}
}

// TestCompared: rows stand beside those that they are measured by.
func TestCompared(t *testing.T) {
	s := newStub(t, "sync", "sync.muon", "sync.median", "sync.median.flip:1", "sync.slow", "async.slow")
	out, err := s.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"sync/ 0.30769 loss-x-dp", "sync/ 1 sent-B-x-dp", "sync.muon/ 0.5 loss-x-dp-muon",
		"sync.muon/ 2.25 loss-x-sync",
		"sync.median.flip:1/ 1.6364 loss-x-clean", "sync.median/ 1 payload-B-x-sync",
		"async.slow/ 1.1111 sec-to-loss-x-sync",
	} {
		words := strings.Fields(want)
		found := false
		for line := range strings.Lines(out) {
			f := strings.Fields(line)
			found = found || len(f) == 4 && strings.HasPrefix(line, "BenchmarkModes/"+words[0]) && f[3] == words[2] &&
				strings.HasPrefix(f[2], words[1][:min(3, len(words[1]))])
		}
		if !found {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, no := range []string{"data-parallel/peers=4/steps=10-16\t1\t1 loss-x", "sync.slow/peers=4/steps=10 sec-to"} {
		if strings.Contains(out, no) {
			t.Errorf("%q in\n%s", no, out)
		}
	}
}

// TestResult: what peers did becomes figures, and those that hold different models are an error.
func TestResult(t *testing.T) {
	c := modesConfig()
	c.Peers, c.InnerSteps, c.StepTime = 2, 40, 40*time.Millisecond
	of := func(training float64, root string) *measuredPeer {
		p := &measuredPeer{
			measured: []eventlog.Line{told(1, 0, 3, 0), told(6, 1, 2.5, 10)},
			sent: []reading{
				{second(afterSeconds(1)), 100}, {second(afterSeconds(1.1)), 200}, {second(afterSeconds(6)), 600},
			},
			payload: 700,
		}
		p.report.BytesSent, p.report.Training, p.report.Stall, p.report.Tokens = 1100, training, 1, 10*c.batch()
		p.report.StateRoot = root
		return p
	}
	of2 := func(row row, root string) (result, error) {
		return c.result(row, []*measuredPeer{of(1, "a"), of(2, root)})
	}
	got, err := of2(row{name: "sync"}, "a")
	for unit, x := range map[string]float64{
		"loss": 2.5, "sec/op": 5, "sent-B": 1000, "payload-B": 700, "control-B": 300, "stall-%": 40, "step-x-pace": 5,
		"peak-B": 100,
	} {
		if y, ok := got.figures[unit]; err != nil || !ok || math.Abs(y-x) > 1e-3 || !strings.Contains(cellUnits, unit) {
			t.Errorf("%s: %v, want %v; %v", unit, y, x, err)
		}
	}
	got, err = of2(row{name: "sync.slow", unusual: []string{slow}}, "a")
	if pace := got.figures["step-x-pace"]; err != nil || pace != 2.5 {
		t.Errorf("the straggler is taken for cores that are short: %v, %v", pace, err)
	}
	if _, err := of2(row{name: "sync"}, "b"); err == nil {
		t.Error("different models are a result")
	}
}
