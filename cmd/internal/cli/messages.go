package cli

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// messages are all lines about a run that a node says to people: join prints them, and trainers
// that attach show them. A line has the name of its event. Behind a slash stands a case of it: that
// the event is about this peer, or what its field reason or ends_as says. $NAME is a field. Events
// that are not listed are for scripts.
var messages = map[string]string{
	"start": "run $run: this peer starts",
	"peer.started": "peer $peer$addresses\n" +
		"  its status             p2pdiloco status --data-dir $data_dir",
	"peer.started/short":   "this peer has started",
	"peer.started/address": "\n  others can start from  --bootstrap $address",
	"peer.started/metrics": "\n  its metrics            /metrics at $metrics",
	"admission.made": "the run is private; its admission secret is in $file\nothers can join with a ticket " +
		"(p2pdiloco invite), or with a copy of that file as their admission secret",

	"run.searching": "$detail",
	"run.founded":   "founded the run, ID $run_id; others can join with a ticket: p2pdiloco invite",
	"run.joined":    "joined the run at slot $slot",
	"known":         "this peer is in run $run, ID $run_id",
	"given up":      "$detail. It looks for that run now",
	"ticket": "others join with this ticket, good for a week:\n  p2pdiloco join $ticket$private\n" +
		"  how the run goes       p2pdiloco status --data-dir $data_dir\n" +
		"  its model, at any time p2pdiloco export --data-dir $data_dir --out model.safetensors",
	"ticket/private": "\n  it admits one newcomer to this private run: keep it secret (p2pdiloco invite makes " +
		"others)",
	"admission.refused": "member $about does not let this peer in: $detail",
	"state.synced":      "fetched the state of slot $slot, $bytes",
	"trainer.resumed":   "$detail",
	"donor.dropped":     "fetching without peer $about: it $reason",

	"slot":       "slot $slot/$last$loss$work, $members$bytes$left",
	"slot/loss":  " loss $loss",
	"slot/work":  ", $steps steps in $training, sync $sync ($share)",
	"slot/bytes": ", $sent (data-parallel $parallel)",
	"slot/left":  ", $left left",

	"slot.waits":    "$detail",
	"peer.resigned": "$detail",
	"waits":         "still waiting: $detail",
	"waits/members": "the first slot waits for more members: $members, and start_peers is $start_peers",
	"waits/others":  "slot $slot waits for $others",
	"waits/slot":    "slot $slot: all have trained; what they learnt is combined and agreed on",
	"waits/trainer": "still getting ready (trainer, first model): $detail",

	"peer.suspected":      "peer $about: $detail",
	"peer.left":           "peer $about is no member any more: $detail",
	"peer.left/left":      "peer $about has left the run",
	"peer.left/lost":      "peer $about is no member any more: it was not heard",
	"peer.left/self":      "this peer is no member any more: $detail",
	"peer.left/self/left": "this peer has left the run",
	"peer.left/self/lost": "the others went on without this peer, because they did not hear from it",
	"peer.evicted":        "peer $about is evicted: $detail",
	"peer.cloned":         "peer $about: $detail",
	"peer.removed":        "peer $about is removed from the run: $detail",
	"peer.removed/self":   "this peer is removed from the run: $detail",
	"peer.readmitted":     "peer $about may take part again: $detail",
	"peer.objected":       "peer $about: $detail",
	"peer.refused":        "peer $about: $detail",
	"access.ordered":      "member $about $detail",
	"secret.rotated":      "$detail",
	"vote.progress":       "$detail",
	"vote.earned":         "$detail",

	"run.paused":     "paused: $detail",
	"run.resumed":    "the run goes on: a quorum is heard again",
	"run.forked":     "forked: $detail",
	"run.confirmed":  "$detail",
	"run.switched":   "$detail",
	"state.diverged": "diverged: $detail",
	"run.final":      "$detail",
	"run.final/run": "$detail\n  the model is saved; this peer may be stopped now (Ctrl-C). To get a file: " +
		"p2pdiloco export --data-dir $data_dir --out MODEL.safetensors",
	"run.final/stays": "  this peer stays (linger forever), and serves the model to all that come, until it is stopped",

	"end": "$how at slot $slot, run ID $run_id, state root $state_root, sent $sent, " +
		"received $received",
	"end/ended":             "the run has ended",
	"end/ended_provisional": "this branch, which may not be the run's, has ended",
	"end/ended_missed":      "the run is over, and its final model is not here",
	"end/left":              "left the run",
	"end/loss":              "\nheld-out loss $first at first, $last at last",
}

// grave are the events that a trainer shows as warnings.
var grave = []string{
	"run.paused", "run.forked", "run.switched", "state.diverged", "admission.refused", "peer.removed",
}

// ofOthers are events that are no news before this peer is a member, unless they are about itself:
// a newcomer takes in the records of all that has happened to others.
var ofOthers = []string{"peer.left", "peer.evicted", "peer.removed", "peer.readmitted", "secret.rotated"}

func isOld(e p2pdiloco.Event) bool {
	return slices.Contains(ofOthers, e.Name) && fmt.Sprint(e.Fields["about"]) != e.Peer.String()
}

// fields are what $NAME in a message stands for.
type fields = map[string]any

// message fills in one of the messages.
func message(name string, f fields) string {
	return os.Expand(messages[name], func(field string) string {
		switch v := f[field].(type) {
		case nil:
			return ""
		case p2pdiloco.Root:
			return v.Short()
		case string:
			if field == "detail" || field == "reason" { // an error of libp2p has many lines
				v = strings.Join(strings.Fields(v), " ")
			}
			return v
		default:
			return fmt.Sprint(v)
		}
	})
}

// Sentence says an event of the peer with a data directory to people, and whether it is a warning.
// It is empty for an event that is for scripts. The event may come from a JSON document.
func Sentence(e p2pdiloco.Event, dir string) (text string, grave bool) {
	if e.Name == "peer.started" {
		return messages["peer.started/short"], false
	}
	if hash, ok := e.Fields["run_id"].(string); ok {
		e.Fields = maps.Clone(e.Fields)
		e.Fields["run_id"] = longer(hash)
	}
	return describe(e, dir), isGrave(e)
}

func isGrave(e p2pdiloco.Event) bool { return slices.Contains(grave, e.Name) }

// describe says an event of the peer with a data directory to people; empty: it is for scripts.
func describe(e p2pdiloco.Event, dir string) string {
	f := maps.Clone(e.Fields)
	if f == nil {
		f = fields{}
	}
	f["peer"], f["data_dir"] = e.Peer, Quote(dir)
	which, name := "reason", e.Name
	switch name {
	case "peer.started":
		return describeStart(f)
	case "state.synced":
		bytes, _ := strconv.ParseUint(fmt.Sprint(f["bytes"]), 10, 64) // a number of any type
		f["bytes"] = humanize.Bytes(bytes)
	case "run.final":
		which = "ends_as"
	}
	if f["about"] != nil && fmt.Sprint(f["about"]) == e.Peer.String() && messages[name+"/self"] != "" {
		name += "/self"
	}
	if of := name + "/" + fmt.Sprint(f[which]); messages[of] != "" {
		name = of
	}
	return strings.TrimRight(message(name, f), " :")
}

func describeStart(f fields) string {
	addrs, _ := f["addrs"].([]string)
	var b strings.Builder
	for _, a := range handy(addrs) {
		b.WriteString(message("peer.started/address", fields{"address": a}))
	}
	f["addresses"] = b.String()
	line := message("peer.started", f)
	if f["api"] == nil { // nobody can ask for its status
		line, _, _ = strings.Cut(line, "\n  its status")
	}
	if f["metrics"] != nil {
		line += message("peer.started/metrics", f)
	}
	return line
}

// handy selects the addresses worth copying by hand: one for this machine and one for others, over
// TCP if possible. The event has all addresses.
func handy(addrs []string) (few []string) {
	here := func(a string) bool { return strings.HasPrefix(a, "/ip4/127.") || strings.HasPrefix(a, "/ip6/::1/") }
	there := func(a string) bool { return !here(a) }
	for _, side := range []func(string) bool{there, here} {
		tcp := func(a string) bool { return side(a) && strings.Contains(a, "/tcp/") }
		i := slices.IndexFunc(addrs, tcp)
		if i < 0 {
			i = slices.IndexFunc(addrs, side)
		}
		if i >= 0 {
			few = append(few, addrs[i])
		}
	}
	return few
}

// longer is a beginning of a run's ID that nobody else's run is made to have.
func longer(hash string) string { return hash[:min(16, len(hash))] }

// closing sums up a peer's part in two lines.
func closing(r eventlog.Peer) string {
	line := message("end", fields{
		"how": messages["end/"+r.Status], "slot": r.Slot, "run_id": longer(r.RunID),
		"state_root": r.StateRoot[:min(8, len(r.StateRoot))],
		"sent":       humanize.Bytes(r.BytesSent), "received": humanize.Bytes(r.BytesReceived),
	})
	if r.LossFirst != nil {
		line += message("end/loss", fields{
			"first": fmt.Sprintf("%.4f", *r.LossFirst), "last": fmt.Sprintf("%.4f", *r.LossLast),
		})
	}
	return line
}
