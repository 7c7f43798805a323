package modes

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// slowness is how much longer a straggler's inner steps take.
const slowness = 4

// fragments of the streaming row.
const fragments = 4

// row has the settings by which a figure is trained, in every seed.
type row struct {
	name     string
	mode     string
	settings []string // of the run, beside those that all rows have
	rounds   uint64
	slow     bool // the last peer's inner steps take slowness times as long
}

// Names of the rows that others are compared with.
const (
	referenceRow = "data-parallel"
	slowSyncRow  = "sync,slow"
)

// rows are those of the modes asked for. The outer hyperparameters are the best ones for up to
// about 80 rounds. A slot waits for all peers, so that all rows train on equally many tokens,
// except in mode async, which need not wait.
func (c Config) rows() (rows []row) {
	// enough to come to as many tokens as the others, and somewhat further: a straggler brings
	// 1/slowness of a peer's
	more := c.Rounds + (c.Rounds+1)/2
	nesterov := func(momentum string, more ...string) []string {
		return append([]string{
			"--outer", "nesterov", "--outer-lr", "0.7", "--momentum", momentum, "--min-peers", strconv.Itoa(c.Peers),
		}, more...)
	}
	sync := nesterov("0.6")
	all := []row{
		{modeSync, modeSync, sync, c.Rounds, false},
		{modeDelayed, modeDelayed, nesterov("0"), c.Rounds, false},
		{modeEager, modeEager, nesterov("0"), c.Rounds, false},
		{
			modeStreaming, modeStreaming,
			nesterov("0.6", "--fragments", strconv.Itoa(fragments), "--fragment-alpha", "0"), c.Rounds, false,
		},
		{slowSyncRow, modeSync, sync, c.Rounds, true},
		{"sync,dylu,slow", modeSync, nesterov("0.6", "--pace", "dylu"), more, true},
		{"async,slow", modeAsync, nil, more, true},
	}
	for _, name := range c.Codecs {
		if name != "f32" { // which all others have
			all = append(all, row{"sync," + name, modeSync, nesterov("0.6", "--codec", name), c.Rounds, false})
		}
	}
	return slices.DeleteFunc(all, func(r row) bool {
		asked := r.mode
		if r.slow { // they are there to be compared
			asked = modeAsync
		}
		return !slices.Contains(c.Modes, asked)
	})
}

// stepTime is how long an inner step of a peer, numbered from 0, lasts.
func (r row) stepTime(c Config, peer int) time.Duration {
	if r.slow && peer == c.Peers-1 {
		return slowness * c.StepTime
	}
	return c.StepTime
}

// span is about how long the row's inner steps take.
func (r row) span(c Config) time.Duration {
	return time.Duration(r.rounds*c.InnerSteps) * r.stepTime(c, c.Peers-1)
}

// args are the flags of a peer, numbered from 0, in a seed.
func (r row) args(c Config, seed uint64, peer int) []string {
	args := []string{
		"--preset", "lan", "--log-level", "info", "--step-time", r.stepTime(c, peer).String(), "--start-peers",
		fmt.Sprint(c.Peers), "--rounds", fmt.Sprint(r.rounds), "--inner-steps",
		fmt.Sprint(c.InnerSteps), "--seed", fmt.Sprint(seed), "--aggregator", "mean", "--mode", r.mode,
		"--held-out", fmt.Sprint(heldOut), "--model", c.model(),
	}
	for _, d := range c.Data {
		args = append(args, "--data", d)
	}
	return append(args, r.settings...)
}

// name is that of a row's figures.
func (c Config) name(row string) string {
	name := fmt.Sprintf("Modes/%s/peers=%d/steps=%d", row, c.Peers, c.InnerSteps)
	if !c.Links.Loopback() {
		name += "/links"
	}
	return name
}
