package modes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
)

// slowness is how much longer a straggler's inner steps take.
const slowness = 4

// fragments of the streaming row.
const fragments = 4

// row has the settings by which a figure is trained, in every seed.
type row struct {
	name     string // the mode, and what is not as usual
	settings string // of the run, beside those that all rows have
	rounds   uint64
}

// Names of the rows that others are compared with.
const (
	referenceRow = "data-parallel"
	syncRow      = "sync"
	slowSyncRow  = "sync,slow"
)

// rows are those of the modes asked for. The outer hyperparameters are the best ones for up to
// about 80 rounds. A slot waits for all peers, so that all rows train on equally many tokens,
// except in mode async, which need not wait. With it come the rows that it is compared with.
func (c Config) rows() (rows []row) {
	// enough to come to as many tokens as the others, and somewhat further: a straggler brings
	// 1/slowness of a peer's
	more := c.Rounds + (c.Rounds+1)/2
	nesterov := fmt.Sprintf("--min-peers %d --outer nesterov --outer-lr 0.7 --momentum ", c.Peers)
	sync := nesterov + "0.6 "
	all := []row{
		{syncRow, sync, c.Rounds},
		{"delayed", nesterov + "0", c.Rounds},
		{"eager", nesterov + "0", c.Rounds},
		{"streaming", fmt.Sprint(sync, "--fragment-alpha 0 --fragments ", fragments), c.Rounds},
	}
	for _, name := range c.Codecs {
		up, down, _ := strings.Cut(name, "+")
		settings := sync
		if strings.HasPrefix(up, codec.TopK) { // whose own outer step is the default
			settings = fmt.Sprintf("--min-peers %d ", c.Peers)
		}
		if settings += "--codec " + up; down != "" {
			settings += " --outcome-codec " + down
		}
		if name != "f32" { // which all others have
			all = append(all, row{"sync," + name, settings, c.Rounds})
		}
	}
	all = slices.DeleteFunc(all, func(r row) bool { return !slices.Contains(c.Modes, r.mode()) })
	if slices.Contains(c.Modes, "async") {
		all = append(all, row{slowSyncRow, sync, c.Rounds}, row{"sync,dylu,slow", sync + "--pace dylu", more},
			row{"async,slow", "", more})
	}
	return all
}

func (r row) mode() string {
	mode, _, _ := strings.Cut(r.name, ",")
	return mode
}

// slow says whether the last peer's inner steps take slowness times as long.
func (r row) slow() bool { return strings.HasSuffix(r.name, ",slow") }

// stepTime is how long an inner step of a peer, numbered from 0, lasts.
func (r row) stepTime(c Config, peer int) time.Duration {
	if r.slow() && peer == c.Peers-1 {
		return slowness * c.StepTime
	}
	return c.StepTime
}

// limit is how long the row may take: much longer than its inner steps, and starting, finding each
// other, the last slot and leaving on a loaded machine.
func (r row) limit(c Config) time.Duration {
	return 4*time.Duration(r.rounds*c.InnerSteps)*r.stepTime(c, c.Peers-1) + 2*time.Minute
}

// args are the flags of a peer, numbered from 0, in a seed.
func (r row) args(c Config, seed, peer int) []string {
	args := strings.Fields(fmt.Sprintf("--preset lan --log-level info --aggregator mean --mode %s --step-time %v "+
		"--start-peers %d --rounds %d --inner-steps %d --seed %d --held-out %d --model %s %s",
		r.mode(), r.stepTime(c, peer), c.Peers, r.rounds, c.InnerSteps, seed, heldOut, &c.Model, r.settings))
	for _, d := range c.Data {
		args = append(args, "--data", d)
	}
	return args
}

// name is that of a row's figures.
func (c Config) name(row string) string {
	name := fmt.Sprintf("Modes/%s/peers=%d/steps=%d", row, c.Peers, c.InnerSteps)
	if !c.Loopback() {
		name += "/links"
	}
	return name
}
