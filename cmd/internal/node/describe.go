package node

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/report"
)

// describers describe an event in a line for people. Events that are not listed are for scripts.
var describers = map[string]func(get func(field string) string, e p2pdiloco.Event) string{
	"peer.started":  describeStart,
	"run.searching": func(get func(string) string, _ p2pdiloco.Event) string { return get("detail") },
	"admission.made": func(get func(string) string, _ p2pdiloco.Event) string {
		return "the run is private; its admission secret is in " + get("file") +
			"\nothers can join with a ticket (p2pdiloco invite), or with a copy of that file (--admission-secret)"
	},
	"run.founded": func(get func(string) string, _ p2pdiloco.Event) string {
		return fmt.Sprintf("founded the run, ID %s; others can join with a ticket: p2pdiloco invite",
			short(get("run_id")))
	},
	"run.joined": func(get func(string) string, _ p2pdiloco.Event) string {
		return "joined the run at slot " + get("slot")
	},
	"state.synced": func(get func(string) string, _ p2pdiloco.Event) string {
		return fmt.Sprintf("fetched the state of slot %s, %s bytes", get("slot"), get("bytes"))
	},
	"donor.dropped": func(get func(string) string, _ p2pdiloco.Event) string {
		// a dial error of libp2p has many lines
		return fmt.Sprintf("fetching without peer %s: it %s", get("about"),
			strings.Join(strings.Fields(get("reason")), " "))
	},
	"slot.applied": func(get func(string) string, _ p2pdiloco.Event) string {
		return fmt.Sprintf("slot %s applied, state root %s", get("slot"), short(get("state_root")))
	},
	"trainer.stats": func(get func(string) string, e p2pdiloco.Event) string {
		if loss, ok := e.Fields["loss"].(float64); ok {
			if get("round") == "0" {
				return fmt.Sprintf("before round 1: held-out loss %.4f", loss)
			}
			return fmt.Sprintf("after round %s: held-out loss %.4f", get("round"), loss)
		}
		// there is no loss before the first round
		if loss, _ := e.Fields["train_loss"].(float64); loss != 0 {
			return fmt.Sprintf("round %s: training loss %.4f", get("round"), loss)
		}
		return "round " + get("round")
	},
	"peer.suspected": func(get func(string) string, _ p2pdiloco.Event) string {
		return fmt.Sprintf("peer %s: %s", get("about"), get("detail"))
	},
	"peer.left":  describeLeft,
	"run.paused": func(get func(string) string, _ p2pdiloco.Event) string { return "paused: " + get("detail") },
	"run.resumed": func(func(string) string, p2pdiloco.Event) string {
		return "the run goes on: a quorum is heard again"
	},
	"state.diverged": func(get func(string) string, _ p2pdiloco.Event) string { return "diverged: " + get("detail") },
	"run.forked": func(get func(string) string, _ p2pdiloco.Event) string {
		if strings.Contains(get("detail"), "from height 0 ") {
			return "" // the run's founding, which leaves nobody out
		}
		return "forked: " + get("detail")
	},
	"vote.progress": func(get func(string) string, _ p2pdiloco.Event) string { return get("detail") },
	"vote.earned":   func(get func(string) string, _ p2pdiloco.Event) string { return get("detail") },
	"run.confirmed": func(get func(string) string, _ p2pdiloco.Event) string { return get("detail") },
	"run.final":     func(get func(string) string, _ p2pdiloco.Event) string { return get("detail") },
	"run.branch_ended": func(get func(string) string, _ p2pdiloco.Event) string {
		return "none of the others was found yet; this peer goes on looking until it is stopped (Ctrl-C)"
	},
	"run.switched": func(get func(string) string, _ p2pdiloco.Event) string { return get("detail") },
	"run.large":    func(get func(string) string, _ p2pdiloco.Event) string { return get("detail") },
	"run.summary":  func(get func(string) string, _ p2pdiloco.Event) string { return get("detail") },
	"peer.evicted": func(get func(string) string, _ p2pdiloco.Event) string {
		return "peer " + get("about") + " is evicted: " + get("detail")
	},
	"peer.cloned": func(get func(string) string, _ p2pdiloco.Event) string {
		return "peer " + get("about") + ": " + get("detail")
	},
	"access.ordered": func(get func(string) string, _ p2pdiloco.Event) string {
		return fmt.Sprintf("member %s %s", get("about"), get("detail"))
	},
	"admission.refused": func(get func(string) string, _ p2pdiloco.Event) string {
		return fmt.Sprintf("member %s does not let this peer in: %s", get("about"), get("detail"))
	},
	"peer.removed": func(get func(string) string, e p2pdiloco.Event) string {
		if get("about") == e.Peer.String() {
			return "this peer is removed from the run: " + get("detail")
		}
		return fmt.Sprintf("peer %s is removed from the run: %s", get("about"), get("detail"))
	},
	"peer.readmitted": func(get func(string) string, _ p2pdiloco.Event) string {
		return fmt.Sprintf("peer %s may take part again: %s", get("about"), get("detail"))
	},
	"slot.waits":     func(get func(string) string, _ p2pdiloco.Event) string { return get("detail") },
	"secret.rotated": func(get func(string) string, _ p2pdiloco.Event) string { return get("detail") },
	"peer.objected":  describePeer,
	"peer.waits": func(get func(string) string, _ p2pdiloco.Event) string {
		return fmt.Sprintf("peer %s waits: %s", get("about"), get("detail"))
	},
	"peer.refused": describePeer,
}

func describe(e p2pdiloco.Event) string {
	f, ok := describers[e.Name]
	if !ok {
		return ""
	}
	get := func(field string) string {
		if v, ok := e.Fields[field]; ok {
			return fmt.Sprint(v)
		}
		return ""
	}
	return strings.TrimRight(f(get, e), " :")
}

// describePeer says what is told of a peer, whose name the detail leaves out.
func describePeer(get func(string) string, _ p2pdiloco.Event) string {
	return fmt.Sprintf("peer %s: %s", get("about"), get("detail"))
}

// describeLeft says why a peer is no member any more.
func describeLeft(get func(string) string, e p2pdiloco.Event) string {
	who, self := "peer "+get("about"), get("about") == e.Peer.String()
	if self {
		who = "this peer"
	}
	switch why := get("detail"); {
	case why == "left":
		return who + " has left the run"
	case why == "lost" && self:
		return "the others went on without this peer, because they did not hear from it"
	case why == "lost":
		return who + " is no member any more: it was not heard"
	default:
		return who + " is no member any more: " + why
	}
}

func describeStart(get func(string) string, e p2pdiloco.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "peer %s\n", e.Peer)
	addrs, _ := e.Fields["addrs"].([]string)
	for _, a := range handy(addrs) {
		fmt.Fprintf(&b, "  others can start from  --bootstrap %s\n", a)
	}
	if dir := get("data_dir"); dir != "" && get("api") != "" {
		fmt.Fprintf(&b, "  its status             p2pdiloco status --data-dir %s\n", dir)
	}
	if metrics := get("metrics"); metrics != "" {
		fmt.Fprintf(&b, "  its metrics            /metrics at %s\n", metrics)
	}
	return strings.TrimSuffix(b.String(), "\n")
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

// short is the beginning of a hash.
func short(hash string) string { return hash[:min(8, len(hash))] }

// closing sums up a peer's part in two lines.
func closing(r report.Peer) string {
	how := map[string]string{
		string(p2pdiloco.PhaseEnded):            "the run has ended",
		string(p2pdiloco.PhaseEndedProvisional): "the run has ended provisionally (see its branch in status)",
		string(p2pdiloco.PhaseEndedBranch):      "this branch, which is not the run, has ended",
		string(p2pdiloco.PhaseEndedMissed):      "the run is over, and its final model is not here",
		statusLeft:                              "left the run",
	}[r.Status]
	loss := ""
	if r.LossFirst != nil {
		loss = fmt.Sprintf("\nheld-out loss %.4f at first, %.4f at last", *r.LossFirst, *r.LossLast)
	}
	return fmt.Sprintf("%s at slot %d, state root %s, sent %s, received %s%s",
		how, r.Slot, short(r.StateRoot), humanize.Bytes(r.BytesSent), humanize.Bytes(r.BytesReceived), loss)
}
