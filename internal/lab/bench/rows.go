package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
)

// slowness is how much longer a straggler's inner steps take.
const slowness = 4

// fragments of the streaming row.
const fragments = 4

// Names of the rows that others are compared with.
const (
	referenceRow     = "data-parallel"
	muonReferenceRow = "data-parallel.muon"
	syncRow          = "sync"
	slowSyncRow      = "sync.slow"
)

var modeNames = []string{"sync", "delayed", "eager", "streaming", "async"}

// aggregators are the flags of each. Median norms bound contributions in all but the mean.
var aggregators = map[string]string{
	"mean": "--aggregator mean", "clip": "--aggregator mean --clip on",
	"trimmed_mean": "--aggregator trimmed_mean", "median": "--aggregator median",
}

// row is a way to train.
type row struct {
	name       string
	mode       string // referenceRow: data-parallel, in this process
	up, down   string // codecs of contributions, and of the outcome if it has its own
	aggregator string
	bad        int // so many of the last peers contribute ten times the opposite
	unusual    []string
}

// Words of what else is not as usual.
const (
	muon = "muon" // in the inner steps
	dylu = "dylu" // each peer does as many inner steps as it can
	slow = "slow" // the last peer's inner steps take slowness times as long
)

func (r row) is(word string) bool { return slices.Contains(r.unusual, word) }

// parseRow reads a row's name: words with dots between them, of which the first is the mode, and
// each other one says what is not as usual.
func parseRow(name string) (row, error) {
	words := strings.Split(name, ".")
	r := row{name: name, mode: words[0], up: codec.F32, aggregator: "mean"}
	if !slices.Contains(modeNames, r.mode) {
		return r, fmt.Errorf("%s: %q is no mode: %s", name, r.mode, strings.Join(modeNames, ", "))
	}
	for _, word := range words[1:] {
		if err := r.parseWord(word); err != nil {
			return r, fmt.Errorf("%s: %w", name, err)
		}
	}
	return r, nil
}

func (r *row) parseWord(word string) (err error) {
	if n, is := strings.CutPrefix(word, "flip:"); is {
		if r.bad, err = strconv.Atoi(n); err != nil || r.bad < 1 {
			err = fmt.Errorf("%q: how many peers flip?", word)
		}
		return err
	}
	switch {
	case slices.Contains([]string{muon, dylu, slow}, word):
		r.unusual = append(r.unusual, word)
	case aggregators[word] != "":
		r.aggregator = word
	default:
		r.up, r.down, _ = strings.Cut(word, "+")
		_, err1 := codec.New(r.up)
		_, err2 := codec.NewOutcome(r.up, r.down)
		if err = cmp.Or(err1, err2); err != nil {
			err = fmt.Errorf("%w; it is none of muon, dylu, slow, flip:N, mean, clip, trimmed_mean, median", err)
		}
	}
	return err
}

// rows are those asked for, and before them those that they are compared with. Names are valid.
func (c ModesConfig) rows() []row {
	rows := []row{{name: referenceRow, mode: referenceRow}}
	for _, name := range c.Rows {
		r, _ := parseRow(name)
		rows = append(rows, r)
	}
	if slices.ContainsFunc(rows, func(r row) bool { return r.is(muon) }) {
		rows = slices.Insert(rows, 1, row{name: muonReferenceRow, mode: referenceRow, unusual: []string{muon}})
	}
	return rows
}

// rounds of a row whose peers need not wait for each other are enough to come to as many tokens as
// the others, and somewhat further: a straggler brings 1/slowness of a peer's.
func (r row) rounds(c ModesConfig) uint64 {
	if r.is(dylu) || r.mode == "async" {
		return c.Rounds + (c.Rounds+1)/2
	}
	return c.Rounds
}

// outer are the flags of the outer step. Hyperparameters are the best ones for up to about 80
// rounds. A slot waits for all peers, so that all rows train on equally many tokens, except in mode
// async, which need not wait; it and topk have outer steps of their own.
func (r row) outer(c ModesConfig) string {
	if r.mode == "async" {
		return ""
	}
	flags := fmt.Sprint("--min-peers ", c.Peers)
	if r.mode == "streaming" {
		flags += fmt.Sprint(" --fragment-alpha 0 --fragments ", fragments)
	}
	momentum := "0.6"
	switch {
	case strings.HasPrefix(r.up, codec.TopK):
		return flags
	case r.mode == "delayed", r.mode == "eager":
		momentum = "0"
	}
	return flags + " --outer nesterov --outer-lr 0.7 --momentum " + momentum
}

// stepTime is how long an inner step of a peer, numbered from 0, lasts.
func (r row) stepTime(c ModesConfig, peer int) time.Duration {
	if r.is(slow) && peer == c.Peers-1 {
		return slowness * c.StepTime
	}
	return c.StepTime
}

// training is how long its inner steps last.
func (r row) training(c ModesConfig) time.Duration {
	return time.Duration(r.rounds(c)*c.InnerSteps) * r.stepTime(c, c.Peers-1)
}

// model has the row's inner optimizer.
func (r row) model(c ModesConfig) *peer.Model {
	m := c.Model
	if r.is(muon) {
		m.Optimizer = builtin.Muon
	}
	return &m
}

// args are the flags of a peer, numbered from 0, in a seed.
func (r row) args(c ModesConfig, seed uint64, peer int) []string {
	measured := 1
	if peer == 0 {
		measured = heldOut
	}
	args := strings.Fields(fmt.Sprintf("--preset lan --log-level info --mode %s --step-time %v --start-peers %d "+
		"--rounds %d --inner-steps %d --seed %d --held-out %d --model %s --codec %s %s %s", r.mode,
		r.stepTime(c, peer), c.Peers, r.rounds(c), c.InnerSteps, seed, measured, r.model(c), r.up,
		aggregators[r.aggregator], r.outer(c)))
	if r.down != "" {
		args = append(args, "--outcome-codec", r.down)
	}
	if r.is(dylu) {
		args = append(args, "--pace", "dylu")
	}
	for _, d := range c.Data {
		args = append(args, "--data", d)
	}
	return args
}

// figure is the name of a row's figures.
func (c ModesConfig) figure(row string) string {
	name := fmt.Sprintf("Modes/%s/peers=%d/steps=%d", row, c.Peers, c.InnerSteps)
	if !c.Loopback() {
		name += "/links"
	}
	return name
}

// clean is the name of the same row without bad peers.
func (r row) clean() string {
	return strings.ReplaceAll(r.name, fmt.Sprint(".flip:", r.bad), "")
}
