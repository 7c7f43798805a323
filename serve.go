package p2pdiloco

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Figure is one number of a status, a value of a metric of docs/reference/metrics.md: in seconds,
// bytes, elements or slots, as its name or Help says.
type Figure struct {
	Name   string // of the metric, without p2pdiloco_ in front
	Help   string // what it is
	Value  float64
	Labels map[string]string // such as the peer that it is about
}

// statusFigures are those that are fields of the status. Behind the path of the field stand the
// field that must be set for it to be known (if), and the labels with their paths (by). Below
// Members there is one value for each member, and paths of labels begin there.
var statusFigures = []struct{ name, path, help string }{
	{"info", "Peer by run=Run run_id=RunID peer=Peer", "1; the labels name the run and this peer"},
	{
		"member_info", "Members.Says by peer=Peer name=Says.Name version=Says.Version",
		"1; the labels are the name and the version that a member says it has",
	},
	{
		"member_state", "Members.Peer by peer=Peer state=State",
		"1 for the state that a member is in, as this peer sees it",
	},
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
	{"ledger_bytes", "LedgerBytes if RunID", "all records and what this peer has voted, on disk"},
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
	{"member_held_out_loss", "Members.Says.HeldOut", "held-out loss of the newest anchor that it measured, as it says"},
	{"member_up_bytes_per_second", "Members.Says.UpBytesPerSecond", "what a member sends, as it says"},
	{"member_down_bytes_per_second", "Members.Says.DownBytesPerSecond", "what a member receives, as it says"},
	{"member_memory_bytes", "Members.Says.MemoryBytes", "memory of a member's node, as it says"},
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

// Figures are the numbers of the status that are known, as GET /metrics has them.
func (s Status) Figures() (all []Figure) {
	add := func(name, help string, value float64, labels map[string]string) {
		all = append(all, Figure{name, help, value, labels})
	}
	for _, p := range phases {
		add("phase", "1 for the phase that this peer is in, 0 for the others", number(reflect.ValueOf(s.Phase == p)),
			map[string]string{"phase": string(p)})
	}
	t := s.Traffic
	for i, b := range []p2p.Bytes{t.Control, t.Gossip, t.Exchange, t.State} {
		for direction, bytes := range []uint64{b.Sent, b.Received} {
			add("traffic_bytes_total", "bytes sent to other peers or received, by what for: exchange (the "+
				"all-reduce), state, control or gossip (and the DHT)", float64(bytes), map[string]string{
				"purpose":   []string{"control", "gossip", "exchange", "state"}[i],
				"direction": []string{"sent", "received"}[direction],
			})
		}
	}
	root := reflect.ValueOf(s)
	for _, f := range statusFigures {
		path, by, _ := strings.Cut(f.path, " by ")
		path, known, _ := strings.Cut(path, " if ")
		isKnown := known == ""
		follow(root, root, known, func(v, _ reflect.Value) { isKnown = isKnown || !v.IsZero() })
		if !isKnown {
			continue
		}
		if by == "" && strings.HasPrefix(path, "Members.") {
			by = "peer=Peer"
		}
		follow(root, root, path, func(v, of reflect.Value) {
			labels := map[string]string{}
			for label := range strings.FieldsSeq(by) {
				name, path, _ := strings.Cut(label, "=")
				follow(of, of, path, func(v, _ reflect.Value) {
					labels[name] = strings.ToValidUTF8(fmt.Sprint(v.Interface()), "?")
				})
			}
			add(f.name, f.help, number(v), labels)
		})
	}
	return all
}

// follow calls f with each value at a path below v, and with the member that it is of: none where a
// pointer is nil.
func follow(v, of reflect.Value, path string, f func(v, of reflect.Value)) {
	name, rest, _ := strings.Cut(path, ".")
	switch {
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			follow(v.Elem(), of, path, f)
		}
	case path == "":
		f(v, of)
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			follow(v.Index(i), v.Index(i), path, f)
		}
	default:
		follow(v.FieldByName(name), of, rest, f)
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
	case v.Kind() == reflect.Slice:
		return float64(v.Len())
	case v.IsZero():
		return 0
	}
	return 1
}

// phases are all of them.
var phases = []Phase{
	PhaseSearching, PhaseJoining, PhaseWaiting, PhaseRunning, PhasePaused, PhaseEnded, PhaseEndedProvisional,
	PhaseEndedMissed, PhaseClosed,
}

// APIHandler serves what docs/reference/status.md says of the API, except GET /events, to whoever
// reaches it: put it behind what knows the callers, for some of its commands change the run.
func (n *Node) APIHandler() http.Handler { return n.api() }

// newAPI makes the API's handler, one for the node: it has a single probe at a time.
func (n *Node) newAPI() http.Handler {
	return api.Handler(api.Content{
		Status: func() (any, bool) { return n.Status(), true }, Metrics: n.MetricsHandler(),
		Commands: api.Commands{
			Recover: n.Recover, Change: n.change,
			Invite: func(i api.Invitation) (string, error) { return n.Invite(n.life.Context(), InviteOptions(i)) },
			Probe:  func(ctx context.Context) (any, error) { return n.Probe(ctx, probeSize), nil },
			Ask: func(ctx context.Context, prompt string) (api.Answer, error) {
				a, err := n.Ask(ctx, prompt)
				return api.Answer(a), err
			},
		},
	})
}

// probeSize is how many bytes a probe sends to each member and receives from it: enough for a
// connection to reach its rate.
const probeSize = 4 << 20

// change carries out the motions remove, readmit and rotate.
func (n *Node) change(c api.Motion) error {
	if c.Action == "rotate" {
		return n.RotateSecret()
	}
	about, err := slot.ParsePeerID(c.Peer)
	switch {
	case err != nil:
		return err
	case c.Action == "remove":
		return n.Remove(about)
	case c.Action == "readmit":
		return n.Readmit(about)
	}
	return fmt.Errorf("there is no command %q", c.Action)
}

// MetricsHandler serves the figures of this node's status, and those of its process, to Prometheus.
func (n *Node) MetricsHandler() http.Handler {
	return MetricsHandler(func() (Status, bool) { return n.Status(), true })
}

// MetricsHandler serves figures as Node.MetricsHandler does, of a status that may not be there yet.
func MetricsHandler(status func() (s Status, ok bool)) http.Handler {
	return api.MetricsHandler(func(tell func(name, help string, value float64, labels map[string]string)) {
		if s, ok := status(); ok {
			for _, f := range s.Figures() {
				tell(f.Name, f.Help, f.Value, f.Labels)
			}
		}
	})
}
