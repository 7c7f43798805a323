package formation

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// Anybody may found a second run of a name. So a peer that knows no more than the name looks around
// before it takes part in the run that answers first: a while, and until each peer that was found
// had its chance to answer. That a run's member was given as a bootstrap address settles the
// choice.

// maxSighted is how many runs are remembered: anybody may make up more, with specs of megabytes.
const maxSighted = 8

// Sighted is a run of the name that is looked for, as one peer has told of it.
type Sighted struct {
	ID    slot.Root
	Spec  spec.Spec
	From  slot.PeerID
	Hello p2p.Hello
}

// Several is the error where nothing says which of the runs in sight is meant.
type Several []Sighted

func (Several) Error() string { return "several runs of this name are in sight" }

// sight remembers a run, or settles its spec if it is chosen already; mu is held.
func (f *Formation) sight(run Sighted, chosen bool) {
	if !chosen {
		if len(f.mu.sighted) < maxSighted {
			f.mu.sighted[run.ID] = run
		}
		return
	}
	f.log.Info("adopted the run spec", "from", run.From, "run_id", run.ID)
	f.takePreset(run.Hello.Timing)
	f.settle(run.Spec)
	f.comparePresetLocked(run.From, run.Hello.Timing)
}

// choose adopts the one run in sight; mu is held.
func (f *Formation) choose() error {
	runs := slices.Collect(maps.Values(f.mu.sighted))
	if len(runs) > 1 {
		return Several(runs)
	}
	for _, run := range runs {
		f.sight(run, true)
	}
	return nil
}

// askStart says hello to the peers whose addresses were given, before others are chosen. One that
// is no peer of a run says so at once.
func (f *Formation) askStart(ctx context.Context) {
	var asked sync.WaitGroup
	for _, p := range f.cfg.Start {
		asked.Go(func() { _ = f.exchange(ctx, p, firstTimeout) })
	}
	asked.Wait()
}
