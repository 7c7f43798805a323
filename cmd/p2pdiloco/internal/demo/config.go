package demo

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/eventlog"
)

// Config says what swarm to run.
type Config struct {
	Executable string // this program
	Peers      int
	Rounds     uint64
	InnerSteps uint64 // of a peer, a round
	Aggregator string
	Data       []string // files and folders of text; none: the Go standard library's source
	Seed       uint64

	Dir    string           // for data directories, events and logs; exists
	Curve  string           // path of the loss curve's PNG
	Events *eventlog.Writer // takes the events of all peers; may be nil

	Out      io.Writer // progress and summary
	Terminal bool      // whether Out is a terminal, where a table can be refreshed
	Width    int       // of the terminal, in columns
}

// Aggregators lists those that the demo can run with.
var Aggregators = []string{"mean", "trimmed_mean", "median"}

// trimPermille makes the trimmed mean of 4 peers drop the highest and the lowest.
const trimPermille = 250

// Most peers and rounds: above these, processes and the picture say nothing any more.
const (
	maxPeers  = 64
	maxRounds = 10000
)

// Validate says all that is wrong with c at once.
func (c Config) Validate() error {
	var errs []error
	if c.Peers < 1 || c.Peers > maxPeers {
		errs = append(errs, fmt.Errorf("--peers %d: allowed: 1 to %d", c.Peers, maxPeers))
	}
	if c.Rounds < 1 || c.Rounds > maxRounds {
		errs = append(errs, fmt.Errorf("--rounds %d: allowed: 1 to %d", c.Rounds, maxRounds))
	}
	if c.Seed == 0 {
		errs = append(errs, errors.New("--seed 0: allowed: 1 and above"))
	}
	if !slices.Contains(Aggregators, c.Aggregator) {
		errs = append(errs, fmt.Errorf("--aggregator %s: allowed: %s", c.Aggregator, strings.Join(Aggregators, ", ")))
	}
	if c.InnerSteps == 0 {
		errs = append(errs, errors.New("--inner-steps 0: allowed: 1 and above"))
	} else if err := (p2pdiloco.Spec{Name: "demo", InnerSteps: c.InnerSteps}).Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
