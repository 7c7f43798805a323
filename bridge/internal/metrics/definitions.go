package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// definition is one metric, and how a status tells its values.
type definition struct {
	name   string // after the prefix
	kind   prometheus.ValueType
	help   string
	labels []string
	tell   teller
}

// A teller calls tell with each value that a status has of a metric, and with its labels.
type teller func(s status, tell func(value float64, labels ...string))

type (
	status = p2pdiloco.Status
	stats  = p2pdiloco.StatsStatus

	agreement = p2pdiloco.AgreementStatus
	member    = p2pdiloco.MemberStatus
	figures   = p2pdiloco.FiguresStatus
	claims    = p2pdiloco.Claims
)

func gauge(name, help string, tell teller, labels ...string) definition {
	return definition{name, prometheus.GaugeValue, help, labels, tell}
}

func counter(name, help string, tell teller, labels ...string) definition {
	return definition{name, prometheus.CounterValue, help, labels, tell}
}

var definitions = []definition{
	gauge("info", "1; the labels name the run and this peer", tellInfo, "run", "run_id", "peer"),
	gauge("phase", "1 for the phase that this peer is in, 0 for the others", tellPhase, "phase"),
	counter("traffic_bytes_total", "bytes sent to other peers or received, by what for: exchange (the all-reduce), "+
		"state, control or gossip (and the DHT)", tellTraffic, "purpose", "direction"),

	gauge("uptime_seconds", "since this peer was started",
		of(func(s status) float64 { return s.Uptime.Seconds() })),
	counter("sent_bytes_total", "bytes sent to other peers", of(func(s status) uint64 { return s.Sent })),
	counter("received_bytes_total", "bytes received from other peers", of(func(s status) uint64 { return s.Received })),
	counter("training_seconds_total", "time spent in inner steps",
		of(func(s status) float64 { return s.Training.Seconds() })),
	counter("stall_seconds_total", "time that the trainer stood still and waited for others",
		of(func(s status) float64 { return s.Stall.Seconds() })),
	counter("tokens_total", "tokens or samples behind this peer's pseudo-gradients",
		of(func(s status) uint64 { return s.Stats.Tokens })),
	counter("slots_applied_total", "slots applied by this process",
		of(func(s status) uint64 { return s.Stats.Applied })),
	counter("contributions_total", "slots applied by this process that list a contribution of this peer",
		of(func(s status) uint64 { return s.Stats.Contributions })),

	gauge("slot", "newest outer step applied here", inRun(func(s status) uint64 { return s.Slot })),
	gauge("last_slot", "the run ends with it", inRun(func(s status) uint64 { return s.LastSlot })),
	gauge("height", "height of the newest certified record known here",
		inRun(func(s status) uint64 { return s.Height })),
	gauge("ballot", "ballot of the height being decided: above 0 where a leader has failed",
		inRun(func(s status) uint32 { return s.Ballot })),
	gauge("parameters", "elements of the model", inRun(func(s status) uint64 { return s.Parameters })),
	gauge("members", "members that the newest record lists", inRun(func(s status) int { return len(s.Members) })),
	gauge("contributors", "members that train", inRun(func(s status) int { return s.Contributors })),
	gauge("tolerated_bad_peers", "how many of them may send wrong values without spoiling the model",
		inRun(func(s status) int { return s.Tolerated })),
	gauge("electors", "members that vote", agreed(func(a agreement) int { return a.Electors })),
	gauge("quorum", "how many of them decide", agreed(func(a agreement) int { return a.Quorum })),
	gauge("tolerated_liars", "how many of them may lie or be gone; 0 with trust crash",
		agreed(func(a agreement) int { return a.Liars })),

	gauge("slot_contributors", "contributors to the newest slot applied here",
		ofSlot(func(s stats) int { return s.Contributors })),
	gauge("slot_weight", "weight of all contributions to it, in tokens or samples",
		ofSlot(func(s stats) uint64 { return s.Weight })),
	gauge("slot_staleness_mean", "mean age of the contributions to it, in slots",
		ofSlot(func(s stats) float64 { return s.Staleness })),
	gauge("slot_staleness_max", "greatest age of the contributions to it, in slots",
		ofSlot(func(s stats) uint64 { return s.MaxStaleness })),
	gauge("gradient_norm", "length (L2) of its aggregated pseudo-gradient",
		ofSlot(func(s stats) float64 { return s.Norm })),
	gauge("own_gradient_norm", "length (L2) of this peer's contribution to it",
		known(func(s stats) *float64 { return s.OwnNorm })),
	gauge("own_gradient_cosine", "cosine of this peer's contribution to the aggregate",
		known(func(s stats) *float64 { return s.Cosine })),
	gauge("pair_cosine", "mean cosine between the contributions, on some frames that this peer reduced",
		known(func(s stats) *float64 { return s.PairCosine })),

	gauge("loss", "held-out loss of the newest anchor that was measured, in nats per token",
		known(func(s stats) *float64 { return s.Loss })),
	gauge("loss_slot", "which slot's anchor that is", tellLossSlot),
	gauge("train_loss", "mean loss of this peer's newest inner steps, in nats per token",
		known(func(s stats) *float64 { return s.TrainLoss })),

	gauge("member_info", "1; the labels are the name and the version that a member says it has", tellNames,
		"peer", "name", "version"),
	gauge("member_loss", "mean loss of a member's newest inner steps, as it says",
		ofClaims(func(c claims) *float64 { return c.Loss }), "peer"),
	gauge("member_tokens_per_second", "how fast a member trains, as it says",
		ofClaims(func(c claims) *float64 { return c.TokensPerSecond }), "peer"),
	gauge("member_stalled_share", "part of the time that a member's trainer stands still, as it says",
		ofClaims(func(c claims) *float64 { return c.StalledShare }), "peer"),
	gauge("member_state", "1 for the state that a member is in, as this peer sees it", tellStates, "peer", "state"),
	gauge("member_heard_seconds", "time since a member was last heard, 0 for this peer",
		ofMember(func(m member) float64 { return m.Heard.Seconds() }), "peer"),
	gauge("member_slot", "newest slot that a member says it has applied",
		ofMember(func(m member) uint64 { return m.Slot }), "peer"),
	gauge("member_norm", "length (L2) of a member's newest contribution",
		ofFigures(func(f figures) *float64 { return &f.Norm }), "peer"),
	gauge("member_norm_ratio", "norm of a member's newest contribution over the median of all",
		ofFigures(func(f figures) *float64 { return f.Ratio }), "peer"),
	gauge("member_cosine", "cosine of a member's newest contribution to the outcome without its own part",
		ofFigures(func(f figures) *float64 { return f.Cosine }), "peer"),
	gauge("member_trimmed", "share of the coordinates at which a member's newest contribution was left out",
		ofFigures(func(f figures) *float64 { return &f.Trimmed }), "peer"),
	gauge("member_clip", "mean factor by which a member's newest contribution was scaled down",
		ofFigures(func(f figures) *float64 { return &f.Clip }), "peer"),
	gauge("member_stands_out", "how many things stand out in what a member contributes or publishes",
		ofMember(func(m member) int { return len(m.StandsOut) }), "peer"),
	gauge("alarm", "1 where what this peer contributes is probably wrong, else 0", tellAlarm),
	gauge("member_steps", "inner steps that a member has done in its round",
		ofMember(func(m member) uint32 { return m.Steps }), "peer"),
}

type number interface {
	int | uint32 | uint64 | float64
}

// of is a value that is always known.
func of[T number](f func(status) T) teller {
	return func(s status, tell func(float64, ...string)) { tell(float64(f(s))) }
}

// inRun is a value that is known once the run is found.
func inRun[T number](f func(status) T) teller {
	return func(s status, tell func(float64, ...string)) {
		if !s.RunID.IsZero() {
			tell(float64(f(s)))
		}
	}
}

// agreed is a value that is known once a record lists members.
func agreed(f func(agreement) int) teller {
	return func(s status, tell func(float64, ...string)) {
		if s.Agreement != nil {
			tell(float64(f(*s.Agreement)))
		}
	}
}

// ofSlot is a value that is known once a slot has been applied.
func ofSlot[T number](f func(stats) T) teller {
	return func(s status, tell func(float64, ...string)) {
		if s.Stats.Slot > 0 {
			tell(float64(f(s.Stats)))
		}
	}
}

// known is a value that is nil where it is not known.
func known(f func(stats) *float64) teller {
	return func(s status, tell func(float64, ...string)) {
		if v := f(s.Stats); v != nil {
			tell(*v)
		}
	}
}

// ofMember is a value of each member.
func ofMember[T number](f func(member) T) teller {
	return func(s status, tell func(float64, ...string)) {
		for _, m := range s.Members {
			tell(float64(f(m)), m.Peer.String())
		}
	}
}

// ofFigures is a value of each member whose contributions are known.
func ofFigures(f func(figures) *float64) teller {
	return func(s status, tell func(float64, ...string)) {
		for _, m := range s.Members {
			if m.Figures == nil {
				continue
			}
			if v := f(*m.Figures); v != nil {
				tell(*v, m.Peer.String())
			}
		}
	}
}

// ofClaims is a value that a member says of itself.
func ofClaims(f func(claims) *float64) teller {
	return func(s status, tell func(float64, ...string)) {
		for _, m := range s.Members {
			if m.Says == nil {
				continue
			}
			if v := f(*m.Says); v != nil {
				tell(*v, m.Peer.String())
			}
		}
	}
}

func tellNames(s status, tell func(float64, ...string)) {
	for _, m := range s.Members {
		if m.Says != nil {
			tell(1, m.Peer.String(), m.Says.Name, m.Says.Version)
		}
	}
}

func tellInfo(s status, tell func(float64, ...string)) {
	tell(1, strings.ToValidUTF8(s.Run, "?"), s.RunID.String(), s.Peer.String())
}

var phases = []p2pdiloco.Phase{
	p2pdiloco.PhaseSearching, p2pdiloco.PhaseJoining, p2pdiloco.PhaseWaiting, p2pdiloco.PhaseRunning,
	p2pdiloco.PhasePaused, p2pdiloco.PhaseEnded, p2pdiloco.PhaseEndedProvisional, p2pdiloco.PhaseEndedBranch,
	p2pdiloco.PhaseEndedMissed, p2pdiloco.PhaseClosed,
}

func tellPhase(s status, tell func(float64, ...string)) {
	for _, p := range phases {
		on := 0.0
		if s.Phase == p {
			on = 1
		}
		tell(on, string(p))
	}
}

func tellTraffic(s status, tell func(float64, ...string)) {
	t := s.Traffic
	for purpose, b := range map[string]p2p.Bytes{
		"control": t.Control, "gossip": t.Gossip, "exchange": t.Exchange, "state": t.State,
	} {
		tell(float64(b.Sent), purpose, "sent")
		tell(float64(b.Received), purpose, "received")
	}
}

func tellStates(s status, tell func(float64, ...string)) {
	for _, m := range s.Members {
		tell(1, m.Peer.String(), m.State)
	}
}

func tellAlarm(s status, tell func(float64, ...string)) {
	on := 0.0
	if s.Alarm != "" {
		on = 1
	}
	tell(on)
}

func tellLossSlot(s status, tell func(float64, ...string)) {
	if s.Stats.Loss != nil {
		tell(float64(s.Stats.LossSlot))
	}
}
