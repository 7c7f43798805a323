package peer

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// NoAPI is the value of API that turns the status API off.
const NoAPI = "off"

// UsualPage is the value of Dashboard where no address was given: the usual one.
const UsualPage = "on"

// Settings are what a user may choose about a peer. New gives the defaults; Register has
// them filled.
type Settings struct {
	DataDir string // empty: one under the user's state directory is chosen
	Events  string // path of the events file; empty: none
	Track   string // where slots go, as track.Follow takes it; empty: nowhere
	// megabytes of an events file, at most, then it is begun anew; 0: no bound
	EventsSize int
	EventsKeep int      // full events files that are kept
	API        string   // address of the status API; empty: a socket in DataDir; or NoAPI
	Metrics    string   // address of the metrics alone; empty: none
	Dashboard  string   // address of the run's page; empty: it is not served; or UsualPage
	JSON       bool     // print a report as JSON
	Quiet      bool     // print warnings alone
	LogLevel   LogLevel // of the log on stderr

	Trainer        Trainer
	TrainerConfig  string        // path; empty: none
	TrainerTimeout time.Duration // without progress
	TrainerReturn  time.Duration // that the peer stays for a trainer that is gone
	Model          Model         // of TrainerGPT; with Threads once Config has succeeded
	Threads        int
	Data           []string      // files and folders of text
	Pause          time.Duration // rest after the inner steps of each round
	Gate           string        // path of a file with the newest slot to train for
	StepTime       time.Duration // that an inner step lasts at least
	HeldOut        int           // sequences that losses are measured on; 0: the trainer's default

	cfg      p2pdiloco.Config // what flags set directly; its Spec is without the spec file
	specFile string
	follow   []string
	founders []string

	linger                 time.Duration // or forever
	stateRate              int64         // MB/s
	maxUpload, maxDownload sources.Rate

	flags *pflag.FlagSet
}
