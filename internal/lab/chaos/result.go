package chaos

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/report"
)

// Result is what a run ends with: the document that chaos --json prints.
type Result struct {
	OK       bool    `json:"ok"` // whether all checks hold
	Seed     uint64  `json:"seed"`
	Peers    int     `json:"peers"`
	Slots    uint64  `json:"slots"` // of a soak: those of the time that counts
	Kinds    []Kind  `json:"kinds"`
	LeftOut  []Kind  `json:"left_out,omitempty"` // for want of root
	Schedule []Fault `json:"schedule"`

	Checks []Check `json:"checks"`
	// those that came about, in the order in which they ended
	Faults   []Injected           `json:"faults"`
	Recovery map[string]*Recovery `json:"recovery"` // by kind

	SlotsPerHour    float64 `json:"slots_per_hour"`
	BaselinePerHour float64 `json:"baseline_slots_per_hour,omitempty"` // undisturbed
	// that the swarm waited for its schedule; not in slots_per_hour
	HeldSeconds float64 `json:"held_seconds"`
	// by all processes; of killed ones as they last said
	BytesSent     uint64  `json:"bytes_sent"`
	BytesReceived uint64  `json:"bytes_received"`
	WallSeconds   float64 `json:"wall_seconds"`

	// of a soak
	Tokens uint64   `json:"tokens,omitempty"` // that contributions to its slots were trained on
	Left   int      `json:"left,omitempty"`   // faults for which there was no time
	Memory []Memory `json:"memory,omitempty"` // at the beginning, the middle and the end

	Replay string `json:"replay"` // the command line that runs the schedule again
	Dir    string `json:"dir,omitempty"`
}

// Recovery is how long it took after faults of one kind, in seconds.
type Recovery struct {
	Seconds []float64 `json:"seconds"`        // from the fault until the next slot committed
	Return  []float64 `json:"return_seconds"` // from its end until its victims took part again
}

// result is what the runner saw; failure is what ended it early, or nil.
func (r *runner) result(failure error) Result {
	res := Result{
		Seed: r.cfg.Seed, Peers: r.cfg.Peers, Slots: r.cfg.Slots, Kinds: r.cfg.Kinds,
		Schedule: r.faults,
		Faults:   []Injected{}, HeldSeconds: r.gate.held.Seconds(),
		WallSeconds: r.screen.Elapsed().Seconds(), Replay: r.cfg.Replay(),
	}
	if s := r.soak; s != nil {
		res.Slots, res.Tokens = r.ledger.within(s.from, s.length)
		res.Left, res.Memory = s.left, r.memory
	}
	for _, f := range r.active {
		r.done = append(r.done, f.Injected)
	}
	for _, f := range r.done {
		f.Recovery = r.recovery(f)
		res.Faults = append(res.Faults, f)
	}
	res.Recovery = recoveries(res.Faults)
	res.SlotsPerHour = r.slotsPerHour()
	var ends []ending
	var logs [][]eventlog.Line
	var finished []bool
	for _, p := range r.nodes {
		res.BytesSent, res.BytesReceived = res.BytesSent+p.sent+p.status.Sent,
			res.BytesReceived+p.received+p.status.Received
		e := r.ending(p)
		ends, logs, finished = append(ends, e), append(logs, p.lines), append(finished, e.finished)
	}
	h := readHistory(logs, finished)
	res.Checks = append(append(verdicts(h, ends, r.last()), r.bill().check(h)...), checkHang(failure),
		checkHappen(r.done), verdict(CheckFaults, r.odd, strings.Join(r.fine, "; ")), verdict(CheckExits, r.ended, ""),
		checkLogs(r.swarm.Logs()))
	res.OK = failure == nil && !slices.ContainsFunc(res.Checks, func(c Check) bool { return !c.OK })
	return res
}

func checkHang(failure error) Check {
	if failure != nil {
		return Check{CheckHang, false, failure.Error()}
	}
	return Check{CheckHang, true, ""}
}

// finished says whether a peer went to the end of the run: of a provisional branch, too, which the
// check of equal endings then compares.
func finished(rep report.Peer) bool {
	return rep.Ended || rep.Status == string(p2pdiloco.PhaseEndedProvisional)
}

// ending says how a peer ended, or what it held at the end of a soak.
func (r *runner) ending(p *node) ending {
	if r.soak != nil && r.soak.ends != nil {
		return r.soak.ends[p.n-1]
	}
	return p.ending()
}

// ending says how a peer's last process ended.
func (p *node) ending() ending {
	e := ending{peer: p.n, why: "it was stopped"}
	rep, ok := p.Report()
	switch {
	case p.Process == nil:
		e.why = "it was not started yet"
	case ok && finished(rep):
		e.finished, e.slot, e.root = true, rep.Slot, rep.StateRoot
	case ok:
		e.why = "it left"
	}
	return e
}

// recovery is the time from a fault's beginning until the next slot was committed; nil if there was
// none.
func (r *runner) recovery(f Injected) *float64 {
	var next time.Time
	for slot, at := range r.ledger.commits {
		if slot > f.BegunSlot && at.After(f.began) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if next.IsZero() || f.began.IsZero() {
		return nil
	}
	took := next.Sub(f.began).Seconds()
	return &took
}

func recoveries(faults []Injected) map[string]*Recovery {
	all := map[string]*Recovery{}
	for _, f := range faults {
		name := f.name()
		if all[name] == nil {
			all[name] = &Recovery{}
		}
		if f.Recovery != nil {
			all[name].Seconds = append(all[name].Seconds, *f.Recovery)
		}
		if f.Return != nil {
			all[name].Return = append(all[name].Return, *f.Return)
		}
	}
	return all
}

// spread is the median of some values, and the largest of them.
func spread(xs []float64) (median, most float64) {
	if len(xs) == 0 {
		return 0, 0
	}
	slices.Sort(xs)
	n := len(xs)
	return (xs[(n-1)/2] + xs[n/2]) / 2, xs[n-1]
}

// slotsPerHour is the pace from the first slot to the last, without the time that the schedule held
// the swarm back.
func (r *runner) slotsPerHour() float64 {
	if len(r.ledger.commits) < 2 {
		return 0
	}
	times := slices.SortedFunc(maps.Values(r.ledger.commits), time.Time.Compare)
	hours := (times[len(times)-1].Sub(times[0]) - r.gate.held).Hours()
	if hours <= 0 {
		return 0
	}
	return float64(len(times)-1) / hours
}
