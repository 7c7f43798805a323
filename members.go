package p2pdiloco

import (
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/p2pdiloco/p2pdiloco/allreduce/figures"
	"github.com/p2pdiloco/p2pdiloco/internal/node/round"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// phaseOf returns the phase of a node that is open, and what it means in plain words, by the newest
// view of the ledger.
func phaseOf(v membership.View, startPeers uint64) (Phase, string) {
	switch {
	case v.Ending != membership.EndsNot:
		return phaseOfEnding(v)
	case v.Missed:
		return PhaseEndedMissed, "the run is over, and no peer is heard that holds its final model"
	case v.Diverged:
		return PhaseJoining, "the state here differs from the certified one: fetching it anew, not contributing"
	case v.Tip.Height == 0:
		return PhaseSearching, "no record of the run is known yet"
	case !v.IsMember || !v.Synced:
		return PhaseJoining, "fetching the chain and the state, then asking to be a member"
	case v.Paused:
		return PhasePaused, "too few voting members answer; no decision is possible until more are back"
	case v.AppliedSlot == 0 && uint64(len(v.Members)) < startPeers:
		return PhaseWaiting, "the first slot waits for start_peers members"
	}
	return PhaseRunning, ""
}

// phaseOfEnding returns the phase of a node whose chain has ended.
func phaseOfEnding(v membership.View) (Phase, string) {
	if v.Ending == membership.EndsProvisional {
		return PhaseEndedProvisional, "the last slot is applied, on a branch that may still end for another one"
	}
	text := "the last slot is applied and agreed"
	if n := len(v.Serves); n > 0 && !v.Done {
		text += fmt.Sprintf("; serving the model to %d peers that lack it, for %v at most", n, v.Linger)
	}
	return PhaseEnded, text
}

// membersOf returns the run's members, as the newest view of the ledger has them. paths are the
// connections to those that are connected now.
func membersOf(s Spec, self PeerID, v membership.View, paths []p2p.Path) (all []MemberStatus) {
	paces := paces{s, v.Pace, v.Tip.Members, v.Tip.Slot + round.ModeOf(s).Lead(), make(map[uint64]map[PeerID]uint32)}
	by := make(map[PeerID]*p2p.Path, len(paths))
	for _, p := range paths {
		by[p.Peer] = &p
	}
	for _, m := range v.Members {
		member := paces.addTo(memberStatus(self, v, m))
		member.Path = by[m.Peer]
		all = append(all, member)
	}
	return all
}

func memberStatus(self PeerID, v membership.View, m membership.MemberView) MemberStatus {
	s := MemberStatus{
		Peer: m.Peer, Since: m.Since, Seat: m.Seat, Credit: m.Credit,
		Self: m.Peer == self, Leader: m.Peer == v.Leader, Heard: m.Heard,
		Slot: m.Slot, Steps: m.Steps, Uplink: uint32(m.Uplink.Speed()), TermsLost: m.TermsLost,
	}
	if c, err := parseClaims(m.Claims); err == nil && !m.Lost { // those of one that is lost are old
		s.Says = &c
	}
	switch {
	case m.Evicted:
		s.State = "evicted"
	case m.Lost:
		s.State = "missing"
	case m.Fault != "":
		s.State, s.Fault = "mute", m.Fault
	case m.Leaving:
		s.State = "leaving"
	case !m.Contributes && m.Elects():
		s.State = "voting"
	case !m.Contributes:
		s.State = "idle"
	case slices.Contains(v.Offered, m.Peer):
		s.State = "offered"
	case v.Plan != nil || 2*len(v.Offered) > len(v.Members):
		s.State = "late"
	default:
		s.State = "training"
	}
	return s
}

// paces is what a status says of the members' inner steps.
type paces struct {
	spec Spec
	pace chain.Pace
	of   []slot.Member
	base uint64 // of a round that begins now
	// steps, by base: they cost too much to be found for each member anew
	dylu map[uint64]map[PeerID]uint32
}

// assigned returns how many inner steps a member has in a round from the anchor of slot base.
func (p paces) assigned(peer PeerID, base uint64) uint32 {
	if p.spec.Pace == spec.PaceSteps {
		return uint32(p.spec.Interval(base + 1))
	}
	if p.dylu[base] == nil {
		p.dylu[base] = p.pace.All(base, p.of)
	}
	return p.dylu[base][peer]
}

// addTo adds to what a status says of a member.
func (p paces) addTo(s MemberStatus) MemberStatus {
	s.Assigned = p.assigned(s.Peer, p.base)
	if o, ok := p.pace.Newest(s.Peer); ok {
		s.Contribution = &ContributionStatus{
			Slot: o.Slot, Staleness: o.Slot - 1 - o.Base, Steps: o.Steps,
			StepTime: time.Duration(o.StepTime) * time.Microsecond,
			Assigned: p.assigned(s.Peer, o.Base),
		}
	}
	return s
}

// FiguresStatus says what a member contributes, by what the owners of the parts of a slot publish:
// in the newest slot with its contribution. It is for people: nothing is decided by it. What is not
// known is nil.
type FiguresStatus struct {
	Slot  uint64   `json:"slot"`
	Norm  float64  `json:"norm"`            // Euclidean
	Ratio *float64 `json:"ratio,omitempty"` // of the norm to the median of all contributors' norms
	// of the angle to the outcome without its own part
	Cosine  *float64 `json:"cosine,omitempty"`
	Trimmed float64  `json:"trimmed"` // share of the coordinates at which it was left out
	Clip    float64  `json:"clip"`    // mean factor by which it was scaled down; 1: not
}

// addFigures adds to members what is known of what they contribute. It returns the alarm that this
// peer raises about itself; empty: none.
func addFigures(members []MemberStatus, known map[PeerID]figures.Member) (alarm string) {
	for i := range members {
		m := &members[i]
		of := known[m.Peer]
		for _, f := range of.Findings {
			if f.Kind == figures.OwnOpposite {
				alarm = f.Words
				continue
			}
			m.StandsOut = append(m.StandsOut, Finding{f.Peer, string(f.Kind), f.Words, f.Since, f.Other})
		}
		if of.Slot > 0 {
			n := of.Newest
			m.Figures = &FiguresStatus{
				Slot: of.Slot, Norm: n.Norm, Ratio: figures.Finite(n.Ratio), Cosine: figures.Finite(n.Cosine),
				Trimmed: n.Trimmed, Clip: n.Clip,
			}
		}
	}
	return alarm
}

// AgreementStatus says which members can go on without the others at the run's present size, and
// how many liars that withstands.
type AgreementStatus struct {
	Trust    string `json:"trust"`    // crash | byzantine
	Electors int    `json:"electors"` // members that vote
	Quorum   int    `json:"quorum"`   // so many of them decide, whichever they are
	Liars    int    `json:"tolerated_liars"`
	Text     string `json:"text"` // the same in plain words
	// whom one has to trust besides, in plain words: whose vote was given and not earned, and what
	// the leader of a step and the operator of a peer can do
	Votes    string `json:"votes"`
	Leader   string `json:"leader"`
	Operator string `json:"operator"`
}

// agreementOf returns what a run withstands with the electors that its newest record lists; nil if
// it lists none.
func agreementOf(rules chain.Rules, tip slot.Record) *AgreementStatus {
	electors := tip.Electors()
	n := len(electors)
	if n == 0 {
		return nil
	}
	a := &AgreementStatus{Trust: spec.TrustCrash, Electors: n, Quorum: rules.Votes(n), Liars: rules.Liars(n)}
	a.Votes, a.Leader, a.Operator = votes(rules), leader(rules, a.Liars), anOperator
	voters := english.Plural(n, "elector", "")
	if all := len(tip.Members); all > n {
		voters += fmt.Sprintf(" of %d members", all)
	}
	goesOn := fmt.Sprintf("goes on while %s", living(rules, electors))
	switch {
	case !rules.Byzantine:
		a.Text = fmt.Sprintf("%s: %s, withstands no liar", english.Plural(n, "member", ""), goesOn)
	case a.Liars == 0:
		a.Trust, a.Text = spec.TrustByzantine, fmt.Sprintf("%s: no liar is tolerated, %s", voters, goesOn)
	default:
		a.Trust = spec.TrustByzantine
		a.Text = fmt.Sprintf("%s: withstands %d that %s, %s", voters, a.Liars,
			english.PluralWord(a.Liars, "lies or is gone", "lie or are gone"), goesOn)
	}
	return a
}

// votes says who has a vote without having earned it.
func votes(rules chain.Rules) string {
	switch {
	case !rules.Byzantine:
		return "every member has one from the start: whoever is let in is trusted"
	case rules.StartPeers <= 1:
		return "the founder was given its own, and is trusted; others earn theirs by contributions"
	}
	return fmt.Sprintf("the first %d members were given theirs (start_peers), and are trusted; "+
		"others earn theirs by contributions", rules.StartPeers)
}

// leader says what the leader of a step can do, where so many liars are withstood.
func leader(rules chain.Rules, liars int) string {
	switch {
	case !rules.Byzantine:
		return "chooses by its word who is a member, and whose contributions count"
	case liars == 0:
		return "can harm the run, as any elector can where no liar is tolerated"
	}
	return "drops no member without proof; can leave out of its step who offered late, members without a vote, " +
		"and a third of the electors at most"
}

const anOperator = "can stop its own peers, and change what they say; to remove another peer takes a quorum"

// living says which electors must live.
func living(rules chain.Rules, electors []slot.Member) string {
	n := len(electors)
	senior := slot.Senior(electors).Peer.Short()
	switch {
	case n == 1:
		return "it lives"
	case n == 2:
		return fmt.Sprintf("the senior, %s, lives", senior)
	case rules.HalfDecides(n):
		return fmt.Sprintf("%d live, or %d with the senior, %s", rules.Votes(n), n/2, senior)
	}
	return fmt.Sprintf("%d live", rules.Votes(n))
}

// VoteStatus says how far this peer is on its way to a vote, where votes are earned.
type VoteStatus struct {
	Contributions int    `json:"contributions"` // accepted ones that count towards it
	Needed        int    `json:"needed"`        // so many are enough
	Text          string `json:"text"`          // what it waits for, in plain words
}

// voteOf returns a peer's way to a vote by the newest record; nil for a peer that has a vote, or is
// no member.
func voteOf(rules chain.Rules, tip slot.Record, p PeerID) *VoteStatus {
	way, ok := rules.ProgressOf(tip, p)
	if !ok {
		return nil
	}
	v := &VoteStatus{Contributions: way.Contributions, Needed: way.Needed}
	v.Text = fmt.Sprintf("%d of %s until a vote", way.Contributions, english.Plural(way.Needed, "contribution", ""))
	switch {
	case way.Contributions < way.Needed:
	case way.Full:
		v.Text += ": all votes are given; it replaces a member that has contributed half as often"
	case way.Others > 0:
		v.Text += fmt.Sprintf(": it gets one when %d more %s earned one, too", way.Others,
			english.PluralWord(way.Others, "member has", "members have"))
	default:
		v.Text += ": one of the next records gives it"
	}
	return v
}

// Cost is what slots take at one peer of time and of bytes, beside what data-parallel training
// takes, which exchanges all gradients at each step.
type Cost struct {
	Slots    uint64        // applied
	Steps    uint64        // inner steps of this peer in them
	Training time.Duration // in inner steps
	Sync     time.Duration // that the trainer stood still meanwhile
	Share    float64       // of Sync in both, from 0 to 1
	Sent     uint64        // bytes, for whatever
	Parallel uint64        // bytes that each of as many peers sends in data-parallel training
	Left     time.Duration // to the last slot, if all are like these; 0: unknown
}

// CostSince returns what was spent since another moment of the peer; the zero Status is its start.
func (s Status) CostSince(before Status) Cost {
	c := Cost{
		Slots:    s.Stats.Applied - before.Stats.Applied,
		Training: s.Training - before.Training, Sync: s.Stall - before.Stall, Sent: s.Sent - before.Sent,
	}
	run := spec.FromFields(s.Spec)
	c.Steps = (s.Stats.Contributions - before.Stats.Contributions) * run.InnerSteps / max(run.Fragments, 1)
	took := c.Training + c.Sync
	if took > 0 {
		c.Share = c.Sync.Seconds() / took.Seconds()
	} else { // a peer without a trainer
		took = s.Uptime - before.Uptime
	}
	if n := uint64(s.Contributors); n > 1 { // a ring: each sends all but its own part, twice
		c.Parallel = c.Steps * 4 * s.Parameters * 2 * (n - 1) / n
	}
	if c.Slots > 0 && s.LastSlot > s.Slot {
		c.Left = took * time.Duration(s.LastSlot-s.Slot) / time.Duration(c.Slots)
	}
	return c
}
