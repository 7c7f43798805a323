package modes

// Result is what a bench ends with: the document that bench modes --json prints.
type Result struct {
	Peers      int    `json:"peers"`
	InnerSteps uint64 `json:"inner_steps"`
	Rounds     uint64 `json:"rounds"`
	Seeds      int    `json:"seeds"`
	Model      string `json:"model"`
	Parameters uint64 `json:"parameters"`
	// that all peers together train on after the warm start, in every row
	Tokens uint64 `json:"tokens"`
	Cores  int    `json:"cores"`
	// that an inner step lasts; a straggler's four times as long
	StepSeconds float64     `json:"step_seconds"`
	Paced       bool        `json:"paced"` // whether it was measured here and not given
	Links       *Links      `json:"links"` // null: loopback
	Warm        *warm       `json:"warm"`
	Rows        []Row       `json:"rows"`
	Races       []Race      `json:"straggler"` // rows with a straggler, beside mode sync with one
	Goals       []Goal      `json:"goals"`
	WallSeconds float64     `json:"wall_seconds"` // of the whole bench
	Load        *CoresShort `json:"cores_short"`  // null: the cores kept up
}

// Links describes the link of each peer, if each is in a network namespace.
type Links struct {
	BitsPerSecond int64   `json:"bits_per_second"` // each way
	DelaySeconds  float64 `json:"delay_seconds"`   // one way, of one peer's link
}

// CoresShort says that inner steps took longer than they should have: stall and wall-clock time are
// then partly due to the machine.
type CoresShort struct {
	Row   string  `json:"row"` // where it was worst
	Ratio float64 `json:"ratio"`
}

// Row is one line of the table.
type Row struct {
	Name     string `json:"name"`
	Mode     string `json:"mode,omitempty"` // empty: the reference
	NotBuilt bool   `json:"not_built,omitempty"`
	// flags of join that this row has and others may not
	Settings []string `json:"settings,omitempty"`
	Runs     []Trial  `json:"runs"` // by seed

	// Means over the seeds; null where nothing was measured or there is nothing to compare with.
	// held-out, nats per token, after as many tokens as the reference's
	Loss   *float64 `json:"loss"`
	Spread *float64 `json:"loss_spread"` // standard deviation
	// share of the reference's loss with the same seed
	OverReference *float64 `json:"over_reference"`
	OverSync      *float64 `json:"over_sync"`
	Sent          *float64 `json:"bytes_sent"` // of a peer
	Peak          *float64 `json:"peak"`       // against mode sync's
	Stall         *float64 `json:"stall"`      // share of the trainer's time
	Seconds       *float64 `json:"seconds"`    // from the first inner step to the last model
}

// Trial is one row in one seed.
type Trial struct {
	Seed      uint64    `json:"seed"`
	Error     string    `json:"error,omitempty"` // why there is nothing else
	Curve     []Point   `json:"curve"`
	Loss      float64   `json:"loss"` // held-out, after as many tokens as the reference's
	Seconds   float64   `json:"seconds"`
	Identical bool      `json:"identical"` // whether all peers ended with equal state roots
	Peers     []PeerRun `json:"peers"`
}

// PeerRun is one peer's part in a run.
type PeerRun struct {
	Sent     float64 `json:"bytes_sent"` // from the first inner steps on
	Peak     float64 `json:"peak_bytes"` // in the busiest window
	Tokens   uint64  `json:"tokens"`
	Training float64 `json:"training_seconds"`
	Stall    float64 `json:"stall_seconds"`
}

// Race is a row with a straggler beside mode sync with one: the time to the lowest loss that both
// come to, by seed. Losses are medians of the newest three rounds' there: of one round's, the
// lowest is chance.
type Race struct {
	Row     string    `json:"row"`
	Targets []float64 `json:"targets"` // losses
	Sync    []float64 `json:"sync_seconds"`
	Seconds []float64 `json:"seconds"`
	Ratio   float64   `json:"ratio"` // mean of the row's seconds over sync's
}

// row is the row of a name, or nil.
func (r *Result) row(name string) *Row {
	for i := range r.Rows {
		if r.Rows[i].Name == name {
			return &r.Rows[i]
		}
	}
	return nil
}

// OK says whether all rows that this program can train ran to their ends. Goals that are not met
// are no failure.
func (r *Result) OK() bool {
	for _, row := range r.Rows {
		for _, run := range row.Runs {
			if run.Error != "" {
				return false
			}
		}
	}
	return true
}
