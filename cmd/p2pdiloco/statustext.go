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

// printStatus writes a status for people: how it goes in six lines, what is wrong if anything is,
// the members, and, if all is set, whom one has to trust and what all figures are.
func printStatus(out io.Writer, s p2pdiloco.Status, all bool) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "run\t%s%s\n", s.Run, inBrackets(s.RunID.IsZero(), s.RunID.Short()))
	fmt.Fprintf(w, "phase\t%s%s\n", s.Phase, inBrackets(s.Detail == "", s.Detail))
	if !s.RunID.IsZero() {
		printProgress(w, s)
	}
	for _, line := range [][2]string{
		{"reason", s.Reason}, {"ALARM", s.Alarm}, {"branch", s.Provisional}, {"trainer", s.Trainer},
	} {
		if line[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
		}
	}
	printStandingOut(w, s.Members)
	for _, o := range s.Motions {
		fmt.Fprintf(w, "motion\t%s\n", motionText(o, len(s.Members)))
	}
	for _, p := range s.Removed {
		fmt.Fprintf(w, "removed\t%s\n", p)
	}
	_ = w.Flush() // a strings.Builder returns no error
	printMembers(&b, s.Members)
	if all {
		b.WriteByte('\n')
		printTrust(w, s)
		_ = w.Flush()
		printFigures(&b, s.Members)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// printProgress writes how far the run is, what its slots take, and who is in.
func printProgress(w io.Writer, s p2pdiloco.Status) {
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
	fmt.Fprintf(w, "slot\t%d of %d%s%s\n", s.Slot, s.LastSlot, loss, left)
	fmt.Fprintf(w, "time\t%d steps in %s a slot, sync %s (%.0f%%)\n", c.Steps/slots,
		seconds(c.Training/time.Duration(slots)), seconds(c.Sync/time.Duration(slots)), 100*c.Share)
	fmt.Fprintf(w, "bytes\t%s a slot (data-parallel %s); %s sent, %s received%s\n", humanize.Bytes(c.Sent/slots),
		humanize.Bytes(c.Parallel/slots), humanize.Bytes(s.Sent), humanize.Bytes(s.Received), bounds(s))
	fmt.Fprintf(w, "members\t%d, of which %d contribute; %s\n", len(s.Members), s.Contributors, late(s.Members))
}

// printTrust writes whom one has to trust, and what else is known.
func printTrust(w io.Writer, s p2pdiloco.Status) {
	fmt.Fprintf(w, "peer\t%s, up %s\n", s.Peer, s.Uptime.Round(time.Second))
	if !s.RunID.IsZero() {
		fmt.Fprintf(w, "height\t%d\n", s.Height)
		fmt.Fprintf(w, "state root\t%s\n", s.StateRoot)
		fmt.Fprintf(w, "record\t%s (%s of records on disk)\n", s.Tip, humanize.Bytes(s.LedgerBytes))
		fmt.Fprintf(w, "trust\t%s\n", pinned(s))
		fmt.Fprintf(w, "to pin\t%s\n", s.Pin)
		fmt.Fprintf(w, "model\t%d parameters\n", s.Parameters)
		if s.Agreement != nil {
			printAgreement(w, *s.Agreement)
		}
		if s.Vote != nil {
			fmt.Fprintf(w, "own vote\t%s\n", s.Vote.Text)
		}
		fmt.Fprintf(w, "bad values\t%s\n", tolerance(s))
	}
	printStats(w, s.Stats)
	printTimes(w, s.Exchange)
	if s.Training > 0 {
		fmt.Fprintf(w, "stalled\t%s of %s that the trainer could have trained\n", s.Stall.Round(time.Second),
			(s.Stall + s.Training).Round(time.Second))
	}
	printMemory(w, s.Process)
	printTraffic(w, s)
	fmt.Fprintf(w, "reached\t%s\n", reached(s.Reach))
}

// printAgreement writes what the agreement withstands, and whom one has to trust.
func printAgreement(w io.Writer, a p2pdiloco.AgreementStatus) {
	fmt.Fprintf(w, "agreement\ttrust %s, %s\n", a.Trust, a.Text)
	if a.Votes != "" { // the peer that was asked is of this version
		fmt.Fprintf(w, "votes\t%s\n", a.Votes)
		fmt.Fprintf(w, "a leader\t%s\n", a.Leader)
		fmt.Fprintf(w, "an operator\t%s\n", a.Operator)
	}
}

// printMemory writes what the node's process takes, where that is known.
func printMemory(w io.Writer, p p2pdiloco.ProcessStatus) {
	if p.HeapBytes == 0 {
		return
	}
	shared := ""
	if p.SharedBytes > 0 {
		shared = fmt.Sprintf(", and %s shared with the trainer: %.3g vectors of the model in float32",
			humanize.Bytes(p.SharedBytes), p.SharedVectors)
	}
	fmt.Fprintf(w, "memory\t%s on the heap%s\n", humanize.Bytes(p.HeapBytes), shared)
}

func printTraffic(w io.Writer, s p2pdiloco.Status) {
	if t := s.Traffic; t != (p2p.Traffic{}) {
		fmt.Fprintf(w, "sent for\tall-reduce %s, states %s, control %s, gossip and DHT %s\n",
			humanize.Bytes(t.Exchange.Sent), humanize.Bytes(t.State.Sent), humanize.Bytes(t.Control.Sent),
			humanize.Bytes(t.Gossip.Sent))
	}
	if t := s.Traffic.Relayed; t != (p2p.Bytes{}) {
		fmt.Fprintf(w, "relayed\t%s sent and %s received through other peers\n", humanize.Bytes(t.Sent),
			humanize.Bytes(t.Received))
	}
}

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

// pinned says why the chain is trusted to be that of the run.
func pinned(s p2pdiloco.Status) string {
	if s.Pinned {
		return "the chain has the pinned record"
	}
	return "no record is pinned (--pin, with the next line): the chain of the first peers found is trusted"
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
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "\nMEMBER\tNAME\tSTATE\tSLOT\tSTEPS\tHEARD\tREACHED\t\tSAYS OF ITSELF")
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
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", m.Peer.Short(), name, m.State, m.Slot, steps(m), heard,
			wayTo(m), role, says)
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
	var parts []string
	for _, p := range []struct {
		value  *float64
		format string
		scale  float64
	}{
		{c.Loss, "loss %.4f", 1},
		{c.HeldOut, "%.4f held out", 1},
		{c.TokensPerSecond, "%.0f tokens/s", 1},
		{c.StalledShare, "stalled %.0f%%", 100},
	} {
		if p.value != nil {
			parts = append(parts, fmt.Sprintf(p.format, *p.value*p.scale))
		}
	}
	for _, p := range []struct {
		value  *float64
		format string
	}{
		{c.UpBytesPerSecond, "%s/s up"}, {c.DownBytesPerSecond, "%s/s down"}, {c.MemoryBytes, "%s of memory"},
	} {
		if p.value != nil {
			parts = append(parts, fmt.Sprintf(p.format, humanize.Bytes(uint64(max(0, min(*p.value, 1e18))))))
		}
	}
	return cmp.Or(c.Name, "-"), strings.Join(append(parts, "version "+cmp.Or(c.Version, "unknown")), ", ")
}
