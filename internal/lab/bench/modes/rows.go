package modes

import (
	"strconv"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// slowness is how much longer a straggler's inner steps take.
const slowness = 4

// fragments of the streaming row.
const fragments = 4

// row has the settings by which one line of the table is trained, in every seed.
type row struct {
	name     string
	mode     string
	settings []string // of the run, beside those that all rows have
	rounds   uint64
	slow     bool // the last peer's inner steps take slowness times as long
	notBuilt string
}

// Names of the rows that are not a mode's.
const (
	referenceRow = "data-parallel"
	slowSyncRow  = "sync, one slow"
	slowPacedRow = "sync, dylu, one slow"
	slowAsyncRow = "async, one slow"
)

// rows are those of the modes asked for. The outer hyperparameters are the best ones for up to
// about 80 rounds. A slot waits for all peers, so that all rows train on equally many tokens,
// except in mode async, which need not wait.
func (c Config) rows() (rows []row) {
	all := []string{"--min-peers", strconv.Itoa(c.Peers)}
	nesterov := func(momentum string) []string {
		return append([]string{"--outer", "nesterov", "--outer-lr", "0.7", "--momentum", momentum}, all...)
	}
	for _, r := range []row{
		{name: modeSync, mode: modeSync, settings: nesterov("0.6"), rounds: c.Rounds},
		{name: modeDelayed, mode: modeDelayed, settings: nesterov("0"), rounds: c.Rounds},
		{name: modeEager, mode: modeEager, settings: nesterov("0"), rounds: c.Rounds},
		{
			name: modeStreaming, mode: modeStreaming,
			settings: append(nesterov("0.6"), "--fragments", strconv.Itoa(fragments), "--fragment-alpha", "0"),
			rounds:   c.Rounds,
		},
		{name: slowSyncRow, mode: modeSync, settings: nesterov("0.6"), rounds: c.Rounds, slow: true},
		{
			name: slowPacedRow, mode: modeSync, settings: append(nesterov("0.6"), "--pace", "dylu"),
			rounds: c.asyncRounds(), slow: true,
		},
		{name: slowAsyncRow, mode: modeAsync, rounds: c.asyncRounds(), slow: true},
	} {
		if r.slow && !c.has(modeAsync) || !r.slow && !c.has(r.mode) {
			continue
		}
		r.notBuilt = unbuilt(r.mode)
		if r.slow {
			r.notBuilt = unbuilt(modeAsync) // there is nothing to compare with it
		}
		rows = append(rows, r)
	}
	for _, name := range c.Codecs {
		if name != lossless && c.has(modeSync) {
			rows = append(rows, row{
				name: codecRow(name), mode: modeSync,
				settings: append(nesterov("0.6"), "--codec", name), rounds: c.Rounds,
			})
		}
	}
	return rows
}

// lossless is the codec of all other rows.
const lossless = "f32"

// codecRow is mode sync with another codec.
func codecRow(name string) string { return modeSync + ", " + name }

// asyncRounds is enough to come to as many tokens as the others, and somewhat further: a straggler
// brings 1/slowness of a peer's.
func (c Config) asyncRounds() uint64 { return c.Rounds + (c.Rounds+1)/2 }

// unbuilt says that this program's engine does not have a mode.
func unbuilt(mode string) string {
	if err := (p2pdiloco.Spec{Name: "bench", Mode: mode}).Validate(); err != nil {
		return "not built"
	}
	return ""
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
	step := r.stepTime(c, c.Peers-1)
	return time.Duration(r.rounds*c.InnerSteps) * step
}
