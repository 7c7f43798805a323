package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco"
)

// printStats writes the lines of a status about the training, as far as they are known.
func printStats(w io.Writer, s p2pdiloco.StatsStatus) {
	if s.Slot == 0 {
		return
	}
	fmt.Fprintf(w, "newest slot\t%d contributors, %s\n", s.Contributors, staleness(s))
	parts := []string{fmt.Sprintf("norm %.4g", s.Norm)}
	if s.OwnNorm != nil {
		parts = append(parts, fmt.Sprintf("own %.4g", *s.OwnNorm))
	}
	if s.Cosine != nil {
		parts = append(parts, fmt.Sprintf("cosine of own to it %.2f", *s.Cosine))
	}
	if s.PairCosine != nil {
		parts = append(parts, fmt.Sprintf("between peers %.2f", *s.PairCosine))
	}
	fmt.Fprintf(w, "pseudo-gradient\t%s\n", strings.Join(parts, ", "))
}

func staleness(s p2pdiloco.StatsStatus) string {
	if s.MaxStaleness == 0 {
		return "none stale"
	}
	return fmt.Sprintf("stale by %.1f slots in the mean, %d at most", s.Staleness, s.MaxStaleness)
}

// printTimes writes how long slots take, and how long they should take by the speed of the links.
func printTimes(w io.Writer, e p2pdiloco.ExchangeStatus) {
	var parts []string
	if last := e.Last; last != nil {
		parts = append(parts, fmt.Sprintf("slot %d took %s%s", last.Slot, seconds(last.Took), expected(*last)))
	}
	if now := e.Now; now != nil {
		parts = append(parts, fmt.Sprintf("slot %d is under way%s", now.Slot, expected(*now)))
	}
	if len(parts) > 0 {
		fmt.Fprintf(w, "exchange\t%s\n", strings.Join(parts, "; "))
	}
}

func expected(t p2pdiloco.SlotTime) string {
	var parts []string
	if t.Expected > 0 {
		parts = append(parts, seconds(t.Expected)+" expected from the links")
	} else {
		parts = append(parts, "links are not measured before 4 MiB were sent to a member")
	}
	if t.Relayed > 0 {
		parts = append(parts, humanize.Bytes(t.Relayed)+" of it through relays")
	}
	return inBrackets(len(parts) == 0, strings.Join(parts, ", "))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2gs", d.Seconds()) }
