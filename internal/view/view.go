package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/p2p"
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
	Name       string            `json:"name"`
	ID         string            `json:"id,omitempty"`
	Private    bool              `json:"private"`
	Peer       string            `json:"peer"`
	Spec       map[string]string `json:"spec"` // empty before the run is known
	Parameters uint64            `json:"parameters,omitempty"`
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
	Parallel uint64      `json:"parallel"`
	For      p2p.Traffic `json:"for"`
	Reached  string      `json:"reached"` // how other peers reach this one, in words
	Limits   string      `json:"limits,omitempty"`
}

// Agreement says how the run decides, and what it withstands.
type Agreement struct {
	p2pdiloco.AgreementStatus
	Height    uint64             `json:"height"`
	LeadsNow  p2pdiloco.PeerID   `json:"leads_now,omitempty"`
	TermsLost uint64             `json:"terms_lost"` // at this height and before
	Terms     string             `json:"terms"`      // the same in words
	Motions   []Motion           `json:"motions"`
	Removed   []p2pdiloco.PeerID `json:"removed"`
	StateRoot p2pdiloco.Root     `json:"state_root"`
}

// Motion is a change of the membership that some members want.
type Motion struct {
	p2pdiloco.MotionStatus
	Lacks int `json:"lacks"` // of a quorum
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
		Name: clip(s.Run, maxName), Private: s.Spec["access"] != spec.AccessOpen, Peer: s.Peer.String(), Spec: s.Spec,
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
	return Bytes{
		Sent: s.Sent, Received: s.Received, Parallel: s.CostSince(p2pdiloco.Status{}).Parallel, For: s.Traffic,
		Reached: Reached(s), Limits: Limits(s),
	}
}

func agreementOf(s p2pdiloco.Status) *Agreement {
	a := &Agreement{
		Height: s.Height, LeadsNow: s.Leader, StateRoot: s.StateRoot, Motions: []Motion{},
		Removed: s.Removed[:min(len(s.Removed), maxMembers)],
	}
	a.TermsLost, a.Terms = termsLost(s)
	if s.Agreement != nil {
		a.AgreementStatus = *s.Agreement
	}
	for _, m := range s.Motions {
		a.Motions = append(a.Motions, motionOf(s, m))
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
	v := Motion{MotionStatus: m}
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
