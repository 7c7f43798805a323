package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/view"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// sheet is lines of a status: label and text, with tabs between them.
type sheet struct{ *tabwriter.Writer }

func newSheet(out io.Writer) sheet { return sheet{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)} }

func (l sheet) add(format string, args ...any) { fmt.Fprintf(l, format+"\n", args...) }

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
	for _, o := range s.Motions {
		l.add("motion\t%s", motionText(o, len(s.Members)))
	}
	for _, p := range s.Removed {
		l.add("removed\t%s", p)
	}
	_ = l.Flush() // a strings.Builder returns no error
	printMembers(l, s)
	if all {
		l.add("")
		printTrust(l, s)
		printFigures(l, s)
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
		humanize.Bytes(c.Parallel/slots), humanize.Bytes(s.Sent), humanize.Bytes(s.Received),
		inBrackets(s.MaxUpload == 0 && s.MaxDownload == 0, view.Limits(s)))
	l.add("members\t%d, of which %d contribute%s", len(s.Members), s.Contributors, late(s.Members))
}

// printTrust writes whom one has to trust, and what else is known.
func printTrust(l sheet, s p2pdiloco.Status) {
	l.add("peer\t%s, up %s", s.Peer, s.Uptime.Round(time.Second))
	if !s.RunID.IsZero() {
		trust := "no record is pinned (--pin, with the next line): the chain of the first peers found is trusted"
		if s.Pinned {
			trust = "the chain has the pinned record"
		}
		l.add("state root\t%s\nrecord\t%s (%s of records on disk)\ntrust\t%s\nto pin\t%s", s.StateRoot, s.Tip,
			humanize.Bytes(s.LedgerBytes), trust, s.Pin)
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
	if p := s.Process; p.HeapBytes > 0 {
		shared := ""
		if p.SharedBytes > 0 {
			shared = fmt.Sprintf(", and %s shared with the trainer: %.3g vectors of the model in float32",
				humanize.Bytes(p.SharedBytes), p.SharedVectors)
		}
		l.add("memory\t%s on the heap%s", humanize.Bytes(p.HeapBytes), shared)
	}
	if t := s.Traffic.Relayed; t != (p2p.Bytes{}) {
		l.add("relayed\t%s sent and %s received through other peers", humanize.Bytes(t.Sent),
			humanize.Bytes(t.Received))
	}
	l.add("reached\t%s", view.Reached(s))
	if last := s.Exchange.Last; last != nil {
		l.add("exchange\tslot %d took %s%s", last.Slot, seconds(last.Took), expected(*last))
	}
	if now := s.Exchange.Now; now != nil {
		l.add("exchange\tslot %d is under way%s", now.Slot, expected(*now))
	}
	_ = l.Flush()
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

// tolerance says what a bad peer can do.
func tolerance(s p2pdiloco.Status) string {
	how := cmp.Or(s.Spec["aggregator"], "this aggregator")
	if s.Contributors == 0 {
		return "no peer trains yet"
	}
	if s.Tolerated == 0 {
		return fmt.Sprintf("no protection: with %s and %s, one that sends wrong values can spoil the model; %s", how,
			english.Plural(s.Contributors, "contributor", ""), owners(s))
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

// late says that no member is late, or nothing: what is wrong with members stands below them.
func late(members []p2pdiloco.MemberStatus) string {
	for _, m := range members {
		if m.State == "late" || m.State == "missing" || m.Fault != "" {
			return ""
		}
	}
	return "; no member is late or missing"
}

// printMembers writes the members as top shows them.
func printMembers(l sheet, s p2pdiloco.Status) {
	rows, notes := view.Table(s)
	if len(s.Members) == 0 {
		return
	}
	l.add("")
	for _, row := range rows {
		l.add("%s", strings.Join(row, "\t"))
	}
	_ = l.Flush()
	for _, note := range notes {
		l.add("%s", note)
	}
	_ = l.Flush()
}

// printFigures writes the figures of this peer with what they are, and a table of the members'.
func printFigures(l sheet, s p2pdiloco.Status) {
	titles, of := []string{"MEMBER"}, map[string]map[string]string{} // by member and title
	l.add("")
	for _, f := range s.Figures() {
		name, member := strings.CutPrefix(f.Name, "member_")
		peer := f.Labels["peer"]
		switch title := strings.ToUpper(strings.ReplaceAll(name, "_", " ")); {
		case len(f.Labels) == 0:
			l.add("%s\t%s\t%s", name, number(f), f.Help)
		case f.Labels["purpose"] != "" && f.Value > 0:
			l.add("%s\t%s\t%s", f.Labels["purpose"], number(f), f.Labels["direction"])
		case member && len(f.Labels) == 1:
			if !slices.Contains(titles, title) {
				titles = append(titles, title)
			}
			if of[peer] == nil {
				of[peer] = map[string]string{}
			}
			of[peer][title] = number(f)
		}
	}
	_ = l.Flush()
	if len(s.Members) > 0 {
		l.add("\n%s", strings.Join(titles, "\t"))
	}
	for _, m := range s.Members {
		cells := []string{m.Peer.Short()}
		for _, title := range titles[1:] {
			cells = append(cells, cmp.Or(of[m.Peer.String()][title], "-"))
		}
		l.add("%s", strings.Join(cells, "\t"))
	}
	_ = l.Flush()
}

// number is the value of a figure, which another peer may have made up.
func number(f p2pdiloco.Figure) string {
	switch v := f.Value; {
	case strings.Contains(f.Name, "bytes"):
		return humanize.Bytes(uint64(max(0, min(v, 1e18))))
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprintf("%.4g", v)
	}
}
