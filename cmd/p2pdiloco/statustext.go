package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// sheet is lines of a status: label and text, with tabs between them.
type sheet struct{ *tabwriter.Writer }

func newSheet(out io.Writer) sheet { return sheet{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)} }

func (l sheet) add(format string, args ...any) { fmt.Fprintf(l, format+"\n", args...) }

// addJoined adds the parts, if there are any.
func (l sheet) addJoined(label, between string, parts []string) {
	if len(parts) > 0 {
		l.add("%s\t%s", label, strings.Join(parts, between))
	}
}

// printStatus writes a status for people: how it goes in six lines, what is wrong if anything is,
// the members, and, if all is set, whom one has to trust and what all figures are.
func printStatus(out io.Writer, s p2pdiloco.Status, all bool) error {
	var b strings.Builder
	l := newSheet(&b)
	l.add("run\t%s%s", s.Run, inBrackets(s.RunID.IsZero(), s.RunID.Short()))
	l.add("phase\t%s%s", s.Phase, inBrackets(s.Detail == "", s.Detail))
	if !s.RunID.IsZero() {
		printProgress(l, s)
	}
	for _, line := range [][2]string{
		{"reason", s.Reason}, {"ALARM", s.Alarm}, {"branch", s.Provisional}, {"trainer", s.Trainer},
	} {
		if line[1] != "" {
			l.add("%s\t%s", line[0], line[1])
		}
	}
	for _, m := range s.Members {
		for _, f := range m.StandsOut {
			l.add("stands out\t%s %s, since slot %d", m.Peer.Short(), f.Words, f.Since)
		}
	}
	for _, o := range s.Motions {
		l.add("motion\t%s", motionText(o, len(s.Members)))
	}
	for _, p := range s.Removed {
		l.add("removed\t%s", p)
	}
	_ = l.Flush() // a strings.Builder returns no error
	printMembers(&b, s.Members)
	if all {
		b.WriteByte('\n')
		printTrust(l, s)
		_ = l.Flush()
		printFigures(&b, s.Members)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// printProgress writes how far the run is, what its slots take, and who is in.
func printProgress(l sheet, s p2pdiloco.Status) {
	c := s.CostSince(p2pdiloco.Status{})
	slots := max(c.Slots, 1)
	loss, left := "", ""
	if s.Stats.Loss != nil {
		loss = fmt.Sprintf(", loss %.4f held out, after slot %d", *s.Stats.Loss, s.Stats.LossSlot)
	} else if s.Stats.TrainLoss != nil {
		loss = fmt.Sprintf(", training loss %.4f", *s.Stats.TrainLoss)
	}
	if c.Left > 0 {
		left = fmt.Sprintf(", about %s left", c.Left.Round(time.Second))
	}
	l.add("slot\t%d of %d%s%s", s.Slot, s.LastSlot, loss, left)
	l.add("time\t%d steps in %s a slot, sync %s (%.0f%%)", c.Steps/slots, seconds(c.Training/time.Duration(slots)),
		seconds(c.Sync/time.Duration(slots)), 100*c.Share)
	l.add("bytes\t%s a slot (data-parallel %s); %s sent, %s received%s", humanize.Bytes(c.Sent/slots),
		humanize.Bytes(c.Parallel/slots), humanize.Bytes(s.Sent), humanize.Bytes(s.Received), bounds(s))
	l.add("members\t%d, of which %d contribute; %s", len(s.Members), s.Contributors, late(s.Members))
}

// printTrust writes whom one has to trust, and what else is known.
func printTrust(l sheet, s p2pdiloco.Status) {
	l.add("peer\t%s, up %s", s.Peer, s.Uptime.Round(time.Second))
	if !s.RunID.IsZero() {
		trust := "no record is pinned (--pin, with the next line): the chain of the first peers found is trusted"
		if s.Pinned {
			trust = "the chain has the pinned record"
		}
		l.add("height\t%d\nstate root\t%s\nrecord\t%s (%s of records on disk)\ntrust\t%s\nto pin\t%s\nmodel\t%d "+
			"parameters", s.Height, s.StateRoot, s.Tip, humanize.Bytes(s.LedgerBytes), trust, s.Pin, s.Parameters)
		if a := s.Agreement; a != nil {
			l.add("agreement\ttrust %s, %s", a.Trust, a.Text)
			if a.Votes != "" { // the peer that was asked is of this version
				l.add("votes\t%s\na leader\t%s\nan operator\t%s", a.Votes, a.Leader, a.Operator)
			}
		}
		if s.Vote != nil {
			l.add("own vote\t%s", s.Vote.Text)
		}
		l.add("bad values\t%s", tolerance(s))
	}
	printStats(l, s)
	if s.Training > 0 {
		l.add("stalled\t%s of %s that the trainer could have trained", s.Stall.Round(time.Second),
			(s.Stall + s.Training).Round(time.Second))
	}
	if p := s.Process; p.HeapBytes > 0 {
		shared := ""
		if p.SharedBytes > 0 {
			shared = fmt.Sprintf(", and %s shared with the trainer: %.3g vectors of the model in float32",
				humanize.Bytes(p.SharedBytes), p.SharedVectors)
		}
		l.add("memory\t%s on the heap%s", humanize.Bytes(p.HeapBytes), shared)
	}
	if t := s.Traffic; t != (p2p.Traffic{}) {
		l.add("sent for\tall-reduce %s, states %s, control %s, gossip and DHT %s", humanize.Bytes(t.Exchange.Sent),
			humanize.Bytes(t.State.Sent), humanize.Bytes(t.Control.Sent), humanize.Bytes(t.Gossip.Sent))
	}
	if t := s.Traffic.Relayed; t != (p2p.Bytes{}) {
		l.add("relayed\t%s sent and %s received through other peers", humanize.Bytes(t.Sent),
			humanize.Bytes(t.Received))
	}
	l.add("reached\t%s", reached(s.Reach))
}

// printStats writes the lines of a status about the training, as far as they are known, and how
// long slots take and should take by the speed of the links.
func printStats(l sheet, s p2pdiloco.Status) {
	if t := s.Stats; t.Slot > 0 {
		stale := "none stale"
		if t.MaxStaleness > 0 {
			stale = fmt.Sprintf("stale by %.1f slots in the mean, %d at most", t.Staleness, t.MaxStaleness)
		}
		l.add("newest slot\t%d contributors, %s", t.Contributors, stale)
		l.addJoined("pseudo-gradient", ", ", texts([]figure{
			{"norm %.4g", &t.Norm},
			{"own %.4g", t.OwnNorm},
			{"cosine of own to it %.2f", t.Cosine},
			{"between peers %.2f", t.PairCosine},
		}))
	}
	var parts []string
	if last := s.Exchange.Last; last != nil {
		parts = append(parts, fmt.Sprintf("slot %d took %s%s", last.Slot, seconds(last.Took), expected(*last)))
	}
	if now := s.Exchange.Now; now != nil {
		parts = append(parts, fmt.Sprintf("slot %d is under way%s", now.Slot, expected(*now)))
	}
	l.addJoined("exchange", "; ", parts)
}

func expected(t p2pdiloco.SlotTime) string {
	text := "links are not measured before 4 MiB were sent to a member"
	if t.Expected > 0 {
		text = seconds(t.Expected) + " expected from the links"
	}
	if t.Relayed > 0 {
		text += ", " + humanize.Bytes(t.Relayed) + " of it through relays"
	}
	return inBrackets(false, text)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2gs", d.Seconds()) }

func inBrackets(empty bool, text string) string {
	if empty {
		return ""
	}
	return " (" + text + ")"
}

// bounds says how much is sent and received at most.
func bounds(s p2pdiloco.Status) string {
	var parts []string
	if s.MaxUpload > 0 {
		parts = append(parts, humanize.Bytes(uint64(s.MaxUpload))+" sent")
	}
	if s.MaxDownload > 0 {
		parts = append(parts, humanize.Bytes(uint64(s.MaxDownload))+" received")
	}
	return inBrackets(len(parts) == 0, "at most "+strings.Join(parts, " and ")+" a second")
}

// tolerance says what a bad peer can do.
func tolerance(s p2pdiloco.Status) string {
	how := cmp.Or(s.Spec["aggregator"], "this aggregator")
	if s.Contributors == 0 {
		return "no peer trains yet"
	}
	if s.Tolerated == 0 {
		plural := "s"
		if s.Contributors == 1 {
			plural = ""
		}
		return fmt.Sprintf("no protection: with %s and %d contributor%s, one that sends wrong values can spoil the "+
			"model; %s", how, s.Contributors, plural, owners(s))
	}
	return fmt.Sprintf("%d of the %d contributors may send wrong values without spoiling the model (%s); %s",
		s.Tolerated, s.Contributors, how, owners(s))
}

// owners says whether what the owners of a slot's pieces reduce is checked. With trust crash nobody
// does, whatever audit_samples is.
func owners(s p2pdiloco.Status) string {
	n := s.Spec["audit_samples"]
	if n == "" || n == "0" || s.Spec["trust"] != p2pdiloco.TrustByzantine {
		return "what owners reduce is not checked"
	}
	return fmt.Sprintf("what owners reduce is checked (%s)", samples(n, s.Audit))
}

// samples says how much a quorum has checked of each piece in the newest slot; a is nil where this
// peer has not.
func samples(asked string, a *p2pdiloco.AuditStatus) string {
	switch {
	case asked == spec.AuditAll:
		return "all of it"
	case a == nil:
		return asked + " samples of each piece, or fewer that cost no more than 5% of a slot's bytes"
	case a.Whole:
		return "all of each piece"
	case a.Why != "":
		return fmt.Sprintf("%d samples of each piece in slot %d, of %d: %s", a.Samples, a.Slot, a.Of, a.Why)
	}
	return fmt.Sprintf("%d samples of each piece in slot %d", a.Samples, a.Slot)
}

// late names the members that are late or missing, or take no part in decisions.
func late(members []p2pdiloco.MemberStatus) string {
	var parts []string
	for _, m := range members {
		if m.State == "late" || m.State == "missing" {
			parts = append(parts, fmt.Sprintf("%s is %s", m.Peer.Short(), m.State))
		}
		if m.Fault != "" {
			parts = append(parts, fmt.Sprintf("%s %s", m.Peer.Short(), m.Fault))
		}
	}
	if len(parts) == 0 {
		return "no member is late or missing"
	}
	return strings.Join(parts, ", ")
}

func printMembers(out io.Writer, members []p2pdiloco.MemberStatus) {
	if len(members) == 0 {
		return
	}
	l := newSheet(out)
	defer l.Flush()
	l.add("\nMEMBER\tNAME\tSTATE\tSLOT\tSTEPS\tHEARD\tREACHED\t\tSAYS OF ITSELF")
	for _, m := range members {
		heard := m.Heard.Round(100*time.Millisecond).String() + " ago"
		if m.Self {
			heard = "itself"
		}
		role := ""
		if m.Leader {
			role = "leader"
		}
		name, says := claims(m.Says)
		l.add("%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s", m.Peer.Short(), name, m.State, m.Slot, steps(m), heard, wayTo(m),
			role, says)
	}
}

// steps says how many inner steps of its round a member has done, if it trains.
func steps(m p2pdiloco.MemberStatus) string {
	if m.State == "voting" || m.State == "idle" {
		return "-"
	}
	if m.Assigned == 0 {
		return strconv.FormatUint(uint64(m.Steps), 10)
	}
	return fmt.Sprintf("%d of %d", m.Steps, m.Assigned)
}

// claims are the name of a member and what it says of itself.
func claims(c *p2pdiloco.Claims) (name, says string) {
	if c == nil {
		return "-", ""
	}
	parts := texts([]figure{
		{"loss %.4f", c.Loss},
		{"%.4f held out", c.HeldOut},
		{"%.0f tokens/s", c.TokensPerSecond},
		{"stalled %.0f%%", c.StalledShare},
		{"%s/s up", c.UpBytesPerSecond},
		{"%s/s down", c.DownBytesPerSecond},
		{"%s of memory", c.MemoryBytes},
	})
	return cmp.Or(c.Name, "-"), strings.Join(append(parts, "version "+cmp.Or(c.Version, "unknown")), ", ")
}

// figure is a value that may not be known, and how it is written: bytes as %s, a share as a
// percentage.
type figure struct {
	format string
	value  *float64
}

// texts are the figures that are known.
func texts(all []figure) (parts []string) {
	for _, f := range all {
		switch {
		case f.value == nil:
			continue
		case strings.Contains(f.format, "%s"):
			parts = append(parts, fmt.Sprintf(f.format, humanize.Bytes(uint64(max(0, min(*f.value, 1e18))))))
		case strings.Contains(f.format, "%%"):
			parts = append(parts, fmt.Sprintf(f.format, 100**f.value))
		default:
			parts = append(parts, fmt.Sprintf(f.format, *f.value))
		}
	}
	return parts
}

// printFigures writes what the members contribute, as far as that is known.
func printFigures(out io.Writer, members []p2pdiloco.MemberStatus) {
	l := newSheet(out)
	defer l.Flush()
	title := "\nPEER\tSLOT\tNORM\tNORM/MEDIAN\tCOSINE TO OTHERS\tTRIMMED\tCLIP FACTOR\n"
	for _, m := range members {
		if f := m.Figures; f != nil {
			ratio, cosine := texts([]figure{{"%.2g", f.Ratio}}), texts([]figure{{"%.2g", f.Cosine}})
			l.add("%s%s\t%d\t%.3g\t%s\t%s\t%.0f%%\t%.2g", title, m.Peer.Short(), f.Slot, f.Norm,
				append(ratio, "-")[0], append(cosine, "-")[0], 100*f.Trimmed, f.Clip)
			title = ""
		}
	}
}
