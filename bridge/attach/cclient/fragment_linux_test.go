package cclient

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// fragments is how many parts the model is divided in, as mode streaming does it.
const fragments = 4

// trained has ranks with a model of rows times 1000 elements train three steps, as they do before
// a border of mode streaming.
func trained(tb testing.TB, server *attach.Server) (tr *attach.Trainer, start, local []float32) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	tr, err := server.Trainer(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	start, local, err = tr.MakeVectors(int(tr.Layout().Elements()))
	if err == nil {
		err = tr.Init(ctx, start)
	}
	if err == nil {
		err = tr.Load(ctx, start)
	}
	if err == nil {
		_, err = tr.Train(ctx, trainer.Task{Slot: 1, Steps: 3, PartSteps: 3})
	}
	if err != nil {
		tb.Fatal(err)
	}
	return tr, start, local
}

// TestARankMovesTheFragmentAlone: at a border of mode streaming a rank exports the fragment and
// later loads it. Every other element, of what it shares and of its model, stays as it is: a rank
// that moved all of its model would stand still for four times as long.
func TestARankMovesTheFragmentAlone(t *testing.T) {
	server := listen(t)
	_, end := wide(t.Context(), t, server, 2, 8)
	defer end()
	tr, start, local := trained(t, server)
	const mark = 4711
	begin, n := len(start)/fragments, len(start)/fragments
	for i := range local {
		local[i] = mark
	}
	if err := tr.GradientRange(t.Context(), begin, local[begin:begin+n]); err != nil {
		t.Fatal(err)
	}
	moved := changed(local, func(int) float32 { return mark })
	for i := range start {
		start[i] = mark
	}
	if err := tr.LoadRange(t.Context(), begin, start[begin:begin+n]); err != nil {
		t.Fatal(err)
	}
	if err := tr.ExportRange(t.Context(), 0, local); err != nil {
		t.Fatal(err)
	}
	loaded := changed(local, func(i int) float32 { return float32(i%1000 - 3) })
	for what, is := range map[string][]int{"exported": moved, "loaded": loaded} {
		if len(is) != n || is[0] != begin || is[n-1] != begin+n-1 {
			t.Errorf("%d elements were %s, and the fragment has %d", len(is), what, n)
		}
	}
}

// changed are the elements that are not what they were.
func changed(v []float32, was func(int) float32) (all []int) {
	for i, x := range v {
		if x != was(i) {
			all = append(all, i)
		}
	}
	return all
}

// BenchmarkBorder is how long ranks stand still at a border of mode streaming: EXPORT of a
// fragment, and its LOAD when it lands. The ranks are processes in C with 64 MiB of parameters
// each. copies is that time over the time of two copies of as many bytes by one thread, here: 1 is
// as fast. In mode sync it is all of the model.
func BenchmarkBorder(b *testing.B) {
	const rows = 16_384
	for _, world := range []int{1, 2, 4} {
		for mode, parts := range map[string]int{"streaming": fragments, "sync": 1} {
			b.Run(fmt.Sprintf("%s/ranks=%d", mode, world), func(b *testing.B) {
				server := listen(b)
				_, end := wide(b.Context(), b, server, world, rows)
				defer end()
				tr, start, local := trained(b, server)
				n := len(start) / parts
				here := make([]float32, n)
				var still, copies time.Duration
				for b.Loop() {
					began := time.Now()
					err := tr.GradientRange(b.Context(), 0, local[:n])
					if err == nil {
						err = tr.LoadRange(b.Context(), 0, start[:n])
					}
					if err != nil {
						b.Fatal(err)
					}
					done := time.Now()
					copy(here, start[:n])
					copy(local[:n], here)
					still, copies = still+done.Sub(began), copies+time.Since(done)
				}
				b.ReportMetric(float64(8*n)/(1<<20), "MiB/border")
				b.ReportMetric(float64(still.Microseconds())/1000/float64(b.N), "ms/border")
				b.ReportMetric(float64(still)/float64(copies), "copies")
			})
		}
	}
}
