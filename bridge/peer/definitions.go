package peer

import (
	"reflect"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// definition is one metric, and how a status tells its values.
type definition struct {
	name   string // after the prefix
	help   string
	labels []string
	tell   teller
}

// A teller calls tell with each value that a status has of a metric, and with its labels.
type teller func(s status, tell func(value float64, labels ...string))

type status = p2pdiloco.Status

// fields are the metrics that are fields of the status: the path of the field, and the one that
// must be set for it to be known. Below Members there is one value for each member.
var fields = []struct{ name, path, help string }{
	{"uptime_seconds", "Uptime", "since this peer was started"},
	{"sent_bytes_total", "Sent", "bytes sent to other peers"},
	{"received_bytes_total", "Received", "bytes received from other peers"},
	{"training_seconds_total", "Training", "time spent in inner steps"},
	{"stall_seconds_total", "Stall", "time that the trainer stood still and waited for others"},
	{"tokens_total", "Stats.Tokens", "tokens or samples behind this peer's pseudo-gradients"},
	{"slots_applied_total", "Stats.Applied", "slots applied by this process"},
	{
		"contributions_total", "Stats.Contributions",
		"slots applied by this process that list a contribution of this peer",
	},

	{"slot", "Slot if RunID", "newest outer step applied here"},
	{"last_slot", "LastSlot if RunID", "the run ends with it"},
	{"height", "Height if RunID", "height of the newest certified record known here"},
	{"ballot", "Ballot if RunID", "ballot of the height being decided: above 0 where a leader has failed"},
	{"parameters", "Parameters if RunID", "elements of the model"},
	{"members", "Members if RunID", "members that the newest record lists"},
	{"contributors", "Contributors if RunID", "members that train"},
	{
		"tolerated_bad_peers", "Tolerated if RunID",
		"how many of them may send wrong values without spoiling the model",
	},
	{"electors", "Agreement.Electors", "members that vote"},
	{"quorum", "Agreement.Quorum", "how many of them decide"},
	{"tolerated_liars", "Agreement.Liars", "how many of them may lie or be gone; 0 with trust crash"},

	{"slot_contributors", "Stats.Contributors if Stats.Slot", "contributors to the newest slot applied here"},
	{"slot_weight", "Stats.Weight if Stats.Slot", "weight of all contributions to it, in tokens or samples"},
	{"slot_staleness_mean", "Stats.Staleness if Stats.Slot", "mean age of the contributions to it, in slots"},
	{"slot_staleness_max", "Stats.MaxStaleness if Stats.Slot", "greatest age of the contributions to it, in slots"},
	{"gradient_norm", "Stats.Norm if Stats.Slot", "length (L2) of its aggregated pseudo-gradient"},
	{"own_gradient_norm", "Stats.OwnNorm", "length (L2) of this peer's contribution to it"},
	{"own_gradient_cosine", "Stats.Cosine", "cosine of this peer's contribution to the aggregate"},
	{
		"pair_cosine", "Stats.PairCosine",
		"mean cosine between the contributions, on some frames that this peer reduced",
	},

	{"loss", "Stats.Loss", "held-out loss of the newest anchor that was measured, in nats per token"},
	{"loss_slot", "Stats.LossSlot if Stats.Loss", "which slot's anchor that is"},
	{"train_loss", "Stats.TrainLoss", "mean loss of this peer's newest inner steps, in nats per token"},

	{"member_loss", "Members.Says.Loss", "mean loss of a member's newest inner steps, as it says"},
	{"member_tokens_per_second", "Members.Says.TokensPerSecond", "how fast a member trains, as it says"},
	{
		"member_stalled_share", "Members.Says.StalledShare",
		"part of the time that a member's trainer stands still, as it says",
	},
	{"member_heard_seconds", "Members.Heard", "time since a member was last heard, 0 for this peer"},
	{"member_slot", "Members.Slot", "newest slot that a member says it has applied"},
	{"member_norm", "Members.Figures.Norm", "length (L2) of a member's newest contribution"},
	{
		"member_norm_ratio", "Members.Figures.Ratio",
		"norm of a member's newest contribution over the median of all",
	},
	{
		"member_cosine", "Members.Figures.Cosine",
		"cosine of a member's newest contribution to the outcome without its own part",
	},
	{
		"member_trimmed", "Members.Figures.Trimmed",
		"share of the coordinates at which a member's newest contribution was left out",
	},
	{
		"member_clip", "Members.Figures.Clip",
		"mean factor by which a member's newest contribution was scaled down",
	},
	{
		"member_stands_out", "Members.StandsOut",
		"how many things stand out in what a member contributes or publishes",
	},
	{"alarm", "Alarm", "1 where what this peer contributes is probably wrong, else 0"},
	{"member_steps", "Members.Steps", "inner steps that a member has done in its round"},
}

// definitions are all metrics: those with labels of their own first.
var definitions = func() []definition {
	all := []definition{
		{"info", "1; the labels name the run and this peer", []string{"run", "run_id", "peer"}, tellInfo},
		{"phase", "1 for the phase that this peer is in, 0 for the others", []string{"phase"}, tellPhase},
		{
			"traffic_bytes_total", "bytes sent to other peers or received, by what for: exchange (the all-reduce), " +
				"state, control or gossip (and the DHT)", []string{"purpose", "direction"}, tellTraffic,
		},
		{
			"member_info", "1; the labels are the name and the version that a member says it has",
			[]string{"peer", "name", "version"},
			tellNames,
		},
		{
			"member_state", "1 for the state that a member is in, as this peer sees it",
			[]string{"peer", "state"},
			tellStates,
		},
	}
	for _, f := range fields {
		d := definition{name: f.name, help: f.help}
		path, known, _ := strings.Cut(f.path, " if ")
		if strings.HasPrefix(path, "Members.") {
			d.labels = []string{"peer"}
		}
		d.tell = func(s status, tell func(float64, ...string)) {
			all, isKnown := reflect.ValueOf(s), known == ""
			follow(all, known, nil, func(v reflect.Value, _ []string) { isKnown = isKnown || !v.IsZero() })
			if isKnown {
				follow(all, path, nil, func(v reflect.Value, labels []string) { tell(number(v), labels...) })
			}
		}
		all = append(all, d)
	}
	return all
}()

// follow calls f with each value at a path below v: none where a pointer is nil.
func follow(v reflect.Value, path string, labels []string, f func(v reflect.Value, labels []string)) {
	name, rest, _ := strings.Cut(path, ".")
	switch {
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			follow(v.Elem(), path, labels, f)
		}
	case path == "":
		f(v, labels)
	case v.Kind() == reflect.Slice:
		for _, m := range v.Interface().([]p2pdiloco.MemberStatus) {
			follow(reflect.ValueOf(m), path, []string{m.Peer.String()}, f)
		}
	default:
		follow(v.FieldByName(name), rest, labels, f)
	}
}

// number is a field's value: the seconds of a duration, the length of a list, 1 for a text.
func number(v reflect.Value) float64 {
	if d, ok := v.Interface().(time.Duration); ok {
		return d.Seconds()
	}
	switch {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	case v.CanFloat():
		return v.Float()
	case v.Kind() == reflect.String:
		return float64(min(v.Len(), 1))
	}
	return float64(v.Len())
}

func (d definition) kind() prometheus.ValueType {
	if strings.HasSuffix(d.name, "_total") {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
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
	p2pdiloco.PhasePaused, p2pdiloco.PhaseEnded, p2pdiloco.PhaseEndedProvisional,
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
