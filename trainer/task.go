package trainer

import "time"

// Task is one round of inner steps. In mode streaming it is a part of a round: the steps to the
// next slot border, in one piece or in two.
type Task struct {
	Slot  uint64 // the slot that this round contributes to, from 1
	Steps int    // inner steps to do: H, in mode streaming those that are left to the border
	// in mode streaming: inner steps after a border at which its slot lands; else 0
	Delay   int
	Seed    uint64   // of the run: the order of the data follows from it
	Self    PeerID   // this peer
	Members []PeerID // the run's members at this slot border, sorted

	// Part is the part of the data that this round trains on. Parts are numbered from 0 without an
	// end, and each is enough for PartSteps steps (docs/how-to/data.md). All peers agree on the
	// assignment of parts to peers: no other peer gets this one until it is known that no
	// contribution came of it.
	Part uint64
	// H; 16 H where the pace is not steps; in mode streaming the steps from border to border
	PartSteps int
	Done      uint64 // steps of the part that were trained before: the task goes on behind them

	// Step is where the run is when the task begins, in inner steps of the run's time, and
	// TotalSteps where it ends. Learning rates that go by them are the same for late joiners.
	Step, TotalSteps uint64

	// Progress is called by Report with the number of steps done; nil outside a node.
	Progress func(stepsDone int) `json:"-"`
}

// Report tells the node how many steps of the task are done, for its status and so that the other
// peers know that this one is at work. Calling it after every step costs nothing.
func (t Task) Report(stepsDone int) {
	if t.Progress != nil {
		t.Progress(stepsDone)
	}
}

// Piece is the task of the inner steps [from, to) of this one.
func (t Task) Piece(from, to int) Task {
	t.Done, t.Step, t.Steps = t.Done+uint64(from), t.Step+uint64(from), to-from
	return t
}

// Progress is how far a run is, in inner steps of its time: each of its rounds is H of them,
// however many a peer does in it.
type Progress struct{ Step, TotalSteps uint64 }

// Share is the part of the run that is over, from 0 to 1.
func (p Progress) Share() float64 { return float64(p.Step) / float64(max(p.TotalSteps, 1)) }

// Stats says what a round of inner steps did.
type Stats struct {
	Steps   int           // inner steps done
	Samples uint64        // samples processed
	Tokens  uint64        // tokens processed: the contribution's weight
	Loss    float64       // mean training loss over the steps, nats per token
	Elapsed time.Duration // time spent in the steps
	// GradNorm is the mean over the steps of the gradient's norm before it was clipped; 0 for
	// unknown.
	GradNorm float64
}

// Plus is what two rounds of inner steps did together: losses and norms are means over the steps.
func (s Stats) Plus(o Stats) Stats {
	if s.Steps == 0 {
		return o
	}
	steps := float64(s.Steps + o.Steps)
	mean := func(a, b float64) float64 { return (a*float64(s.Steps) + b*float64(o.Steps)) / steps }
	return Stats{
		Steps: s.Steps + o.Steps, Samples: s.Samples + o.Samples, Tokens: s.Tokens + o.Tokens,
		Elapsed: s.Elapsed + o.Elapsed,
		Loss:    mean(s.Loss, o.Loss), GradNorm: mean(s.GradNorm, o.GradNorm),
	}
}
