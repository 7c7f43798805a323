package membership

import (
	"errors"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// These are the reasons why Step refuses a message. All are ordinary: peers lag behind each other.
var (
	ErrStale  = errors.New("about what is decided or given up")
	ErrSender = errors.New("not for this sender to say")
	ErrLacks  = errors.New("leaves out what this peer does not hold")
)

const never = time.Duration(-1 << 62) // long before any time the machine is told

// Config says which peer a machine is and what it goes by.
type Config struct {
	Self        slot.PeerID
	Incarnation slot.Incarnation
	Rules       chain.Rules
	Timing      Timing
	Plan        Planner
	// of certificates; the messages' own signatures are checked before Step
	Verify slot.Verifier
	// this peer waits for others that found the run, or have its chain, however long it takes
	NeverFounds bool
	// a lost quorum is waited for until ReportRecover; else this peer forks after Timing.ForkAfter
	PauseOnLoss bool
	// anybody may come: newcomers are listed at the pace at which members contribute
	Open   bool
	Follow []slot.PeerID // whose motions this peer makes its own
	// hash of a record: a chain without it is neither joined nor moved to. Zero: none
	Pin slot.Root
	// random numbers, for the order in which peers are asked for states and outcomes; nil: by IDs
	Rand func() uint64
}
