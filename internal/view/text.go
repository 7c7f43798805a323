package view

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco"
)

// Bounds on what a view has of what other peers say.
const (
	maxName    = 64   // characters of a name
	maxText    = 600  // of a sentence
	maxMembers = 1024 // as many as a run has
	maxNotes   = 8    // sentences about a member
)

// clip makes one line of a text that may come from anybody, with so many characters at most.
func clip(text string, most int) string {
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) { // such as those that turn the direction of what follows
			return -1
		}
		return r
	}, text)), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// Reached says how other peers reach this one.
func Reached(s p2pdiloco.Status) string {
	r := s.Reach
	text := "Others reach this peer directly where its network lets connections in."
	switch {
	case r.Public:
		text = "Others reach this peer directly, from everywhere."
	case len(r.Relays) > 0:
		text = fmt.Sprintf("Others reach this peer through %d relays, and directly where its network lets connections "+
			"in. A forwarded TCP and UDP port (--listen, --announce) is faster.", len(r.Relays))
	}
	if r.Relaying {
		text += fmt.Sprintf(" It relays for others: %s so far.", humanize.Bytes(r.Carried.Sent))
	}
	return text
}

// Limits says how much the peer sends and receives at most; empty: it has no limits.
func Limits(s p2pdiloco.Status) string {
	var parts []string
	if s.MaxUpload > 0 {
		parts = append(parts, humanize.Bytes(uint64(s.MaxUpload))+"/s sent")
	}
	if s.MaxDownload > 0 {
		parts = append(parts, humanize.Bytes(uint64(s.MaxDownload))+"/s received")
	}
	if len(parts) == 0 {
		return ""
	}
	return "at most " + strings.Join(parts, " and ")
}
