package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Member is one member as the peer sees it. What is nil is not known.
type Member struct {
	ID    string `json:"id"`
	Name  string `json:"name,omitempty"` // that it says it has
	Short string `json:"short"`          // the end of the ID that commands take, too
	Self  bool   `json:"self,omitempty"`
	State string `json:"state"`
	Role  string `json:"role"` // leader | elector | member
	// whether it trains: a voting or idle member has no trainer
	Contributes bool     `json:"contributes"`
	Slot        uint64   `json:"slot"`
	Steps       uint32   `json:"steps"`
	Of          uint32   `json:"of,omitempty"`    // inner steps of its round
	Share       *float64 `json:"share,omitempty"` // of all inner steps in the newest slot
	Norm        *float64 `json:"norm,omitempty"`
	Ratio       *float64 `json:"ratio,omitempty"` // of its norm to the median
	Cosine      *float64 `json:"cosine,omitempty"`
	Trimmed     *float64 `json:"trimmed,omitempty"`
	Way         string   `json:"way"` // itself | direct | punched | relayed | not connected
	Transport   string   `json:"transport,omitempty"`
	RTTMillis   *float64 `json:"rtt_ms,omitempty"`
	Rate        uint32   `json:"rate,omitempty"`   // kB/s to it, of a way through a relay
	Uplink      uint32   `json:"uplink,omitempty"` // kB/s that it measured
	// in seconds; 0: it is heard
	HeardAgo int64 `json:"heard_s"`
	// what it says of itself, which may be wrong
	Says     *p2pdiloco.Claims `json:"says,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
}

// Ways of members to which no connection leads.
const (
	waySelf = "itself"
	wayNone = "not connected"
)

// quietFor is how long a member is silent before a view says so.
const quietFor = 5 * time.Second

func membersOf(s p2pdiloco.Status) []Member {
	all := make([]Member, 0, len(s.Members))
	var steps uint64 // of all in the newest slot
	for _, m := range s.Members {
		if c := m.Contribution; c != nil && c.Slot == s.Stats.Slot {
			steps += uint64(c.Steps)
		}
	}
	for _, m := range s.Members[:min(len(s.Members), maxMembers)] {
		v := memberOf(m)
		if c := m.Contribution; c != nil && c.Slot == s.Stats.Slot && steps > 0 {
			v.Share = new(float64(c.Steps) / float64(steps))
		}
		v.Warnings = warningsOf(m)
		all = append(all, v)
	}
	return all
}

func memberOf(m p2pdiloco.MemberStatus) Member {
	v := Member{
		ID: m.Peer.String(), Short: m.Peer.Short(), Self: m.Self, State: m.State, Role: roleOf(m),
		Contributes: m.State != "voting" && m.State != "idle", Slot: m.Slot, Steps: m.Steps, Of: m.Assigned,
		Way: wayNone, Uplink: m.Uplink,
	}
	if m.Says != nil {
		says := *m.Says
		v.Name, says.Name, says.Version = clip(says.Name, maxName), "", clip(says.Version, maxName)
		v.Says = &says
	}
	if f := m.Figures; f != nil {
		v.Norm, v.Ratio, v.Cosine, v.Trimmed = &f.Norm, f.Ratio, f.Cosine, &f.Trimmed
	}
	switch {
	case m.Self:
		v.Way = waySelf
	case m.Path != nil:
		v.Way, v.Transport = m.Path.Way, strings.TrimSuffix(m.Path.Transport, "-v1")
		if m.Path.RTT > 0 {
			v.RTTMillis = new(float64(m.Path.RTT.Round(100*time.Microsecond)) / 1e6)
		}
		if m.Path.Way == p2p.WayRelayed {
			v.Rate = m.Rate
		}
	}
	if !m.Self && m.Heard > quietFor {
		v.HeardAgo = int64(m.Heard.Seconds())
	}
	return v
}

func roleOf(m p2pdiloco.MemberStatus) string {
	switch {
	case m.Leader:
		return "leader"
	case m.Seat > 0:
		return "elector"
	}
	return "member"
}

// warningsOf says what is wrong with a member, and what to do.
func warningsOf(m p2pdiloco.MemberStatus) (all []string) {
	switch m.State {
	case "late":
		all = append(all, "It is late: most others have offered their part of the slot.")
	case "missing":
		all = append(all, "It is not heard; the others go on without it if that lasts.")
	case "evicted":
		all = append(all, "It is evicted: a proof shows that it contradicted itself.")
	}
	if m.Fault != "" {
		all = append(all, sentence("It "+m.Fault))
	}
	for _, f := range m.StandsOut {
		all = append(all, sentence(fmt.Sprintf("It %s, since slot %d", f.Words, f.Since)))
	}
	if p := m.Path; p != nil && p.Way == p2p.WayRelayed {
		all = append(all, relayed(*p, m.Rate))
	} else if p == nil && !m.Self && m.State != "missing" {
		all = append(all, "There is no connection from here to it now.")
	}
	return all[:min(len(all), maxNotes)]
}

// relayed says what a relay costs; rate is in kB/s, 0 for unknown.
func relayed(p p2p.Path, rate uint32) string {
	by := cmp.Or(p.Relay.Short(), "another peer")
	if p.Limited {
		return fmt.Sprintf("Only relay %s leads to it, which lets small things pass and no contribution: open a TCP "+
			"and a UDP port on one of the two sides, or run p2pdiloco bootstrap --relay where both reach it.", by)
	}
	if rate > 0 {
		by += fmt.Sprintf(" at %s/s", humanize.Bytes(1000*uint64(rate)))
	}
	return fmt.Sprintf("Its bytes go through %s, which is slower than a direct way: open a TCP and a UDP port on one "+
		"of the two sides (p2pdiloco doctor says how).", by)
}

// sentence is a text with the end of one.
func sentence(text string) string { return strings.TrimRight(clip(text, maxText), ".") + "." }
