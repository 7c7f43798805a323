package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// View is a run at one moment.
type View struct {
	Run       Run        `json:"run"`
	Now       Now        `json:"now"`
	Bytes     Bytes      `json:"bytes"`
	Agreement *Agreement `json:"agreement"` // nil: the run is not known yet
	Members   []Member   `json:"members"`
}

// Run says which run it is, and which peer was asked.
type Run struct {
	Name       string   `json:"name"`
	ID         string   `json:"id,omitempty"`
	Private    bool     `json:"private"`
	Peer       string   `json:"peer"`
	Mode       string   `json:"mode,omitempty"`
	Codec      string   `json:"codec,omitempty"`
	Outer      string   `json:"outer,omitempty"`
	Aggregator string   `json:"aggregator,omitempty"`
	Parameters uint64   `json:"parameters,omitempty"`
	Addrs      []string `json:"addrs,omitempty"` // of the peer
}

// Now says what the peer is about.
type Now struct {
	Phase    string   `json:"phase"`
	Headline string   `json:"headline"` // what is waited for, or else what is done, in words
	Notes    []string `json:"notes"`    // what people should know or do, in words
	Slot     uint64   `json:"slot"`
	LastSlot uint64   `json:"last_slot"`
	Stage    *Stage   `json:"stage"` // nil: the run is not running
	// to the end of the run; nil: unknown
	LeftSeconds *float64 `json:"left_s"`
	Loss        *float64 `json:"loss"` // held out
	LossSlot    uint64   `json:"loss_slot,omitempty"`
	TrainLoss   *float64 `json:"train_loss"`
	// of the time in which the trainer could have trained
	StallShare *float64 `json:"stall_share"`
	UpSeconds  float64  `json:"up_s"`
}

// Bytes are what the peer has sent and received since its start.
type Bytes struct {
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
	// what data-parallel training had sent for the same inner steps; 0: unknown
	Parallel uint64         `json:"parallel"`
	For      []PurposeBytes `json:"for"`
	Relayed  uint64         `json:"relayed"` // of Sent, through other peers
	Reached  string         `json:"reached"` // how other peers reach this one, in words
	Limits   string         `json:"limits,omitempty"`
}

// PurposeBytes are what was sent for one purpose.
type PurposeBytes struct {
	What string `json:"what"`
	Sent uint64 `json:"sent"`
}

// Agreement says how the run decides, and what it withstands.
type Agreement struct {
	Height    uint64   `json:"height"`
	Leader    string   `json:"leader,omitempty"` // its ID
	TermsLost uint64   `json:"terms_lost"`       // at the height that is being decided, and before
	Terms     string   `json:"terms"`            // the same in words
	Electors  int      `json:"electors"`
	Quorum    int      `json:"quorum"`
	Liars     int      `json:"liars"` // that may lie or be gone
	Trust     string   `json:"trust,omitempty"`
	Text      string   `json:"text,omitempty"`
	Motions   []Motion `json:"motions"`
	Removed   []string `json:"removed"`
	StateRoot string   `json:"state_root"`
}

// Motion is a change of the membership that some members want.
type Motion struct {
	Action string `json:"action"`
	Peer   string `json:"peer,omitempty"`
	Have   int    `json:"have"`  // members that have it
	Lacks  int    `json:"lacks"` // of a quorum
}

// build makes a view of a status. waits says what the peer waits for.
func build(s p2pdiloco.Status, waits string, beside *clock) View {
	v := View{Run: runOf(s), Now: nowOf(s, waits, beside), Bytes: bytesOf(s), Members: membersOf(s)}
	if !s.RunID.IsZero() {
		v.Agreement = agreementOf(s)
	}
	return v
}

func runOf(s p2pdiloco.Status) Run {
	r := Run{
		Name: clip(s.Run, maxName), Private: s.Spec["access"] != spec.AccessOpen, Peer: s.Peer.String(), Addrs: s.Addrs,
		Mode: s.Spec["mode"], Codec: s.Spec["codec"], Outer: s.Spec["outer"], Aggregator: s.Spec["aggregator"],
		Parameters: s.Parameters,
	}
	if !s.RunID.IsZero() {
		r.ID = s.RunID.String()
	}
	return r
}

func nowOf(s p2pdiloco.Status, waits string, beside *clock) Now {
	n := Now{
		Phase: string(s.Phase), Slot: s.Slot, LastSlot: s.LastSlot, Loss: s.Stats.Loss, LossSlot: s.Stats.LossSlot,
		TrainLoss: s.Stats.TrainLoss, UpSeconds: s.Uptime.Seconds(), Notes: []string{},
	}
	if s.Phase == p2pdiloco.PhaseRunning {
		n.Stage = stageOf(s, beside)
		if left := s.CostSince(p2pdiloco.Status{}).Left; left > 0 {
			n.LeftSeconds = new(left.Seconds())
		}
	}
	if all := s.Training + s.Stall; all > 0 {
		n.StallShare = new(s.Stall.Seconds() / all.Seconds())
	}
	switch {
	case waits != "" && (s.Phase != p2pdiloco.PhaseEnded || s.Detail == ""):
		n.Headline = waits
	case n.Stage != nil:
		n.Headline = n.Stage.Text
	default:
		n.Headline = s.Detail
	}
	for _, text := range []string{s.Alarm, s.Provisional, s.Reason, s.Trainer} {
		if text != "" {
			n.Notes = append(n.Notes, clip(text, maxText))
		}
	}
	n.Headline = clip(n.Headline, maxText)
	return n
}

func bytesOf(s p2pdiloco.Status) Bytes {
	t := s.Traffic
	return Bytes{
		Sent: s.Sent, Received: s.Received, Parallel: s.CostSince(p2pdiloco.Status{}).Parallel, Relayed: t.Relayed.Sent,
		For: []PurposeBytes{
			{"all-reduce", t.Exchange.Sent},
			{"states for newcomers", t.State.Sent},
			{"agreement", t.Control.Sent},
			{"gossip and DHT", t.Gossip.Sent},
		},
		Reached: Reached(s), Limits: Limits(s),
	}
}

func agreementOf(s p2pdiloco.Status) *Agreement {
	a := &Agreement{
		Height: s.Height, StateRoot: s.StateRoot.String(), Motions: []Motion{}, Removed: []string{},
	}
	a.TermsLost, a.Terms = termsLost(s)
	if s.Leader != "" {
		a.Leader = s.Leader.String()
	}
	if of := s.Agreement; of != nil {
		a.Electors, a.Quorum, a.Liars, a.Trust, a.Text = of.Electors, of.Quorum, of.Liars, of.Trust, of.Text
	}
	for _, m := range s.Motions {
		a.Motions = append(a.Motions, motionOf(s, m))
	}
	for _, p := range s.Removed[:min(len(s.Removed), maxMembers)] {
		a.Removed = append(a.Removed, p.String())
	}
	return a
}

// termsLost counts the terms that were lost, and says who led them.
func termsLost(s p2pdiloco.Status) (all uint64, text string) {
	now, by := uint64(slot.Ref{Ballot: s.Ballot}.Term()), []string(nil)
	all = now
	for _, m := range s.Members {
		if m.TermsLost > 0 {
			all += uint64(m.TermsLost)
			by = append(by, fmt.Sprintf("%d by %s", m.TermsLost, m.Peer.Short()))
		}
	}
	if all == 0 {
		return 0, "none at the newest 64 heights"
	}
	text = "none at this height"
	if now > 0 {
		text = fmt.Sprintf("%d at this height: a leader has failed", now)
	}
	if len(by) > 0 {
		text += "; at the newest 64: " + strings.Join(by, ", ")
	}
	return all, text
}

// motionOf is a motion with how many more a quorum takes. All electors decide about it, but for the
// one that it is about.
func motionOf(s p2pdiloco.Status, m p2pdiloco.MotionStatus) Motion {
	v := Motion{Action: m.Action, Have: len(m.By)}
	if m.Peer != "" {
		v.Peer = m.Peer.String()
	}
	deciders, have := 0, 0
	for _, member := range s.Members {
		if member.Seat == 0 || m.Peer != "" && member.Peer == m.Peer {
			continue
		}
		if deciders++; slices.Contains(m.By, member.Peer) {
			have++
		}
	}
	if rules := (chain.Rules{Byzantine: s.Spec["trust"] == spec.TrustByzantine}); !m.Enough {
		v.Lacks = max(1, rules.Votes(deciders)-have)
	}
	return v
}

// clock remembers since when a slot is combined: a status says only that it is.
type clock struct {
	slot  uint64
	since time.Time
}

// passed is how long ago a slot's exchange was seen for the first time.
func (c *clock) passed(slot uint64) time.Duration {
	if c.slot != slot {
		c.slot, c.since = slot, time.Now()
	}
	return time.Since(c.since)
}
