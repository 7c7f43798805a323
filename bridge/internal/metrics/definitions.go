package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/p2pdiloco/p2pdiloco"
)

// definition is one metric.
type definition struct {
	name string
	kind prometheus.ValueType
	help string
}

func (d definition) desc(labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(d.name, d.help, labels, nil)
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// These metrics are 1 where their labels hold.
var (
	info       = definition{"p2pdiloco_info", gauge, "1; the labels name the run and this peer"}
	infoLabels = []string{"run", "run_id", "peer"}
	phase      = definition{"p2pdiloco_phase", gauge, "1 for the phase that this peer is in, 0 for the others"}
	member     = definition{
		"p2pdiloco_member_state", gauge,
		"1 for the state that a member is in, as this peer sees it",
	}
	memberLabels = []string{"peer", "state"}

	// Bytes by their purpose.
	traffic = definition{
		"p2pdiloco_traffic_bytes_total", counter,
		"bytes sent to other peers or received, by what for: exchange (the all-reduce), state, control or gossip " +
			"(and the DHT)",
	}
	trafficLabels = []string{"purpose", "direction"}
)

var phases = []p2pdiloco.Phase{
	p2pdiloco.PhaseSearching, p2pdiloco.PhaseJoining, p2pdiloco.PhaseWaiting, p2pdiloco.PhaseRunning,
	p2pdiloco.PhasePaused, p2pdiloco.PhaseEnded,
	p2pdiloco.PhaseClosed,
}

// ofMember are the metrics with one value for each member.
var ofMember = []struct {
	definition
	value func(m p2pdiloco.MemberStatus) float64
}{
	{
		definition{"p2pdiloco_member_heard_seconds", gauge, "time since a member was last heard, 0 for this peer"},
		func(m p2pdiloco.MemberStatus) float64 { return m.Heard.Seconds() },
	},
	{
		definition{"p2pdiloco_member_slot", gauge, "newest slot that a member says it has applied"},
		func(m p2pdiloco.MemberStatus) float64 { return float64(m.Slot) },
	},
	{
		definition{"p2pdiloco_member_steps", gauge, "inner steps that a member has done in its round"},
		func(m p2pdiloco.MemberStatus) float64 { return float64(m.Steps) },
	},
}

// single are the metrics with one value, which may be unknown.
var single = []struct {
	definition
	value func(s p2pdiloco.Status) (float64, bool)
}{
	{
		definition{"p2pdiloco_uptime_seconds", gauge, "since this peer was started"},
		func(s p2pdiloco.Status) (float64, bool) { return s.Uptime.Seconds(), true },
	},
	{
		definition{"p2pdiloco_sent_bytes_total", counter, "bytes sent to other peers"},
		func(s p2pdiloco.Status) (float64, bool) { return float64(s.Sent), true },
	},
	{
		definition{"p2pdiloco_received_bytes_total", counter, "bytes received from other peers"},
		func(s p2pdiloco.Status) (float64, bool) { return float64(s.Received), true },
	},
	{
		definition{"p2pdiloco_training_seconds_total", counter, "time spent in inner steps"},
		func(s p2pdiloco.Status) (float64, bool) { return seconds(s.Training), true },
	},
	{
		definition{"p2pdiloco_stall_seconds_total", counter, "time that the trainer stood still and waited for others"},
		func(s p2pdiloco.Status) (float64, bool) { return seconds(s.Stall), true },
	},
	{
		definition{"p2pdiloco_tokens_total", counter, "tokens or samples behind this peer's pseudo-gradients"},
		ofStats(func(s p2pdiloco.StatsStatus) float64 { return float64(s.Tokens) }),
	},
	{
		definition{"p2pdiloco_slots_applied_total", counter, "slots applied by this process"},
		ofStats(func(s p2pdiloco.StatsStatus) float64 { return float64(s.Applied) }),
	},
	{
		definition{
			"p2pdiloco_contributions_total", counter,
			"slots applied by this process that list a contribution of this peer",
		},
		ofStats(func(s p2pdiloco.StatsStatus) float64 { return float64(s.Contributions) }),
	},

	{
		definition{"p2pdiloco_slot", gauge, "newest outer step applied here"},
		inRun(func(s p2pdiloco.Status) float64 { return float64(s.Slot) }),
	},
	{
		definition{"p2pdiloco_last_slot", gauge, "the run ends with it"},
		inRun(func(s p2pdiloco.Status) float64 { return float64(s.LastSlot) }),
	},
	{
		definition{"p2pdiloco_height", gauge, "height of the newest certified record known here"},
		inRun(func(s p2pdiloco.Status) float64 { return float64(s.Height) }),
	},
	{
		definition{"p2pdiloco_ballot", gauge, "ballot of the height being decided: above 0 where a leader has failed"},
		inRun(func(s p2pdiloco.Status) float64 { return float64(s.Ballot) }),
	},
	{
		definition{"p2pdiloco_parameters", gauge, "elements of the model"},
		inRun(func(s p2pdiloco.Status) float64 { return float64(s.Parameters) }),
	},
	{
		definition{"p2pdiloco_members", gauge, "members that the newest record lists"},
		inRun(func(s p2pdiloco.Status) float64 { return float64(len(s.Members)) }),
	},
	{
		definition{"p2pdiloco_contributors", gauge, "members that train"},
		inRun(func(s p2pdiloco.Status) float64 { return float64(s.Contributors) }),
	},
	{
		definition{
			"p2pdiloco_tolerated_bad_peers", gauge,
			"how many of them may send wrong values without spoiling the model",
		},
		inRun(func(s p2pdiloco.Status) float64 { return float64(s.Tolerated) }),
	},

	{
		definition{"p2pdiloco_slot_contributors", gauge, "contributors to the newest slot applied here"},
		ofSlot(func(s p2pdiloco.StatsStatus) *float64 { return number(s.Contributors) }),
	},
	{
		definition{"p2pdiloco_slot_weight", gauge, "weight of all contributions to it, in tokens or samples"},
		ofSlot(func(s p2pdiloco.StatsStatus) *float64 { return number(s.Weight) }),
	},
	{
		definition{"p2pdiloco_slot_staleness_mean", gauge, "mean age of the contributions to it, in slots"},
		ofSlot(func(s p2pdiloco.StatsStatus) *float64 { return &s.Staleness }),
	},
	{
		definition{"p2pdiloco_slot_staleness_max", gauge, "greatest age of the contributions to it, in slots"},
		ofSlot(func(s p2pdiloco.StatsStatus) *float64 { return number(s.MaxStaleness) }),
	},
	{
		definition{"p2pdiloco_gradient_norm", gauge, "length (L2) of its aggregated pseudo-gradient"},
		ofSlot(func(s p2pdiloco.StatsStatus) *float64 { return &s.Norm }),
	},
	{
		definition{"p2pdiloco_own_gradient_norm", gauge, "length (L2) of this peer's contribution to it"},
		ofSlot(func(s p2pdiloco.StatsStatus) *float64 { return s.OwnNorm }),
	},
	{
		definition{"p2pdiloco_own_gradient_cosine", gauge, "cosine of this peer's contribution to the aggregate"},
		ofSlot(func(s p2pdiloco.StatsStatus) *float64 { return s.Cosine }),
	},
	{
		definition{
			"p2pdiloco_pair_cosine", gauge,
			"mean cosine between the contributions, on some frames that this peer reduced",
		},
		ofSlot(func(s p2pdiloco.StatsStatus) *float64 { return s.PairCosine }),
	},

	{
		definition{"p2pdiloco_loss", gauge, "held-out loss of the newest anchor that was measured, in nats per token"},
		known(func(s p2pdiloco.StatsStatus) *float64 { return s.Loss }),
	},
	{
		definition{"p2pdiloco_loss_slot", gauge, "which slot's anchor that is"},
		known(func(s p2pdiloco.StatsStatus) *float64 {
			if s.Loss == nil {
				return nil
			}
			return number(s.LossSlot)
		}),
	},
	{
		definition{"p2pdiloco_train_loss", gauge, "mean loss of this peer's newest inner steps, in nats per token"},
		known(func(s p2pdiloco.StatsStatus) *float64 { return s.TrainLoss }),
	},
}

func seconds(d time.Duration) float64 { return d.Seconds() }

func number[T int | uint64](n T) *float64 {
	v := float64(n)
	return &v
}

// inRun is a value that is known once the run is found.
func inRun(f func(p2pdiloco.Status) float64) func(p2pdiloco.Status) (float64, bool) {
	return func(s p2pdiloco.Status) (float64, bool) { return f(s), !s.RunID.IsZero() }
}

func ofStats(f func(p2pdiloco.StatsStatus) float64) func(p2pdiloco.Status) (float64, bool) {
	return func(s p2pdiloco.Status) (float64, bool) { return f(s.Stats), true }
}

// known is a value that is nil where it is not known.
func known(f func(p2pdiloco.StatsStatus) *float64) func(p2pdiloco.Status) (float64, bool) {
	return func(s p2pdiloco.Status) (float64, bool) {
		if v := f(s.Stats); v != nil {
			return *v, true
		}
		return 0, false
	}
}

// ofSlot is a value that is known once a slot has been applied.
func ofSlot(f func(p2pdiloco.StatsStatus) *float64) func(p2pdiloco.Status) (float64, bool) {
	return func(s p2pdiloco.Status) (float64, bool) {
		if s.Stats.Slot == 0 {
			return 0, false
		}
		return known(f)(s)
	}
}
