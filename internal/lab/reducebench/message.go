package reducebench

// The parent sends lines of JSON to a peer's process on its stdin, and gets one line back for each
// on its stdout.

// Orders, in the order in which they come. opGo and opEnd come once a round.
const (
	opStart   = "start"   // make a network
	opPrepare = "prepare" // make the contribution, and be connected to all others
	opPlan    = "plan"    // know what all others offer
	opGo      = "go"      // reduce
	opEnd     = "end"     // all are done
	opFinish  = "finish"  // report the totals
)

type order struct {
	Op        string   `json:"op"`
	Case      Case     `json:"case"`      // start
	Index     int      `json:"index"`     // start: which peer this is, from 0
	Listen    []string `json:"listen"`    // start: multiaddrs
	Bootstrap []string `json:"bootstrap"` // start: multiaddrs of those that were started before
	Profile   string   `json:"profile"`   // start: file for a CPU profile; empty: none
	IDs       []string `json:"ids"`       // prepare: of all peers, by index
	Roots     []string `json:"roots"`     // plan: of all contributions, by index
	Round     uint64   `json:"round"`     // go: counted from 1
	Measured  bool     `json:"measured"`  // go: the two rounds before are not
	Check     bool     `json:"check"`     // end: compare this peer's share with the reference
}

type answer struct {
	Error string   `json:"error,omitempty"`
	ID    string   `json:"id,omitempty"`    // start
	Addrs []string `json:"addrs,omitempty"` // start
	Root  string   `json:"root,omitempty"`  // prepare
	// prepare: seconds of checking and hashing the contribution
	Commit  float64 `json:"commit,omitempty"`
	Hash    float64 `json:"hash,omitempty"`    // prepare: CPU seconds of hashing a GB, alone
	Seconds float64 `json:"seconds,omitempty"` // go
	CPU     float64 `json:"cpu,omitempty"`     // end: seconds since go
	Sent    uint64  `json:"sent,omitempty"`    // end: bytes of streams
	Digest  string  `json:"digest,omitempty"`  // end: hash of the outcome
	Worst   float64 `json:"worst,omitempty"`   // end, checked: distance from the reference
	Allowed float64 `json:"allowed,omitempty"` // end, checked
	Peak    uint64  `json:"peak,omitempty"`    // finish: bytes of memory
}
