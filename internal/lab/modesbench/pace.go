package modesbench

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
)

const (
	probeSteps  = 8
	minStepTime = 20 * time.Millisecond
	roundTime   = 10 * time.Millisecond // step times are a multiple of it
)

// paceOf chooses the length of inner steps: twice the time that they take with all peers on this
// machine's cores, so that half of the cores' time is left for everything else.
func paceOf(ctx context.Context, cfg Config, corpus *builtin.Corpus) (time.Duration, error) {
	t, err := builtin.New(cfg.Model, corpus)
	if err != nil {
		return 0, err
	}
	var took []time.Duration
	for slot := range uint64(probeSteps) {
		stats, err := t.Train(ctx, p2pdiloco.Task{Slot: slot + 1, Steps: 1})
		if err != nil {
			return 0, err
		}
		took = append(took, stats.Elapsed)
	}
	slices.Sort(took)
	return paceFor(took[probeSteps/4], cfg.Peers, runtime.NumCPU()), nil
}

func paceFor(step time.Duration, peers, cores int) time.Duration {
	d := 2 * step * time.Duration(peers) / time.Duration(min(peers, cores))
	return max(minStepTime, (d+roundTime-1)/roundTime*roundTime)
}
