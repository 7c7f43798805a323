package view

import (
	"regexp"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// maxEvents is how many events a view has, the newest.
const maxEvents = 200

// Event is one thing that happened, in words.
type Event struct {
	Number uint64    `json:"n"`
	Time   time.Time `json:"time"`
	Text   string    `json:"text"`
	Grave  bool      `json:"grave,omitempty"`
}

// events are the newest things that happened, the oldest first.
type events struct {
	all    []Event
	number uint64
}

// peerID is what can only be the ID of a peer, whose last characters are its short name.
var peerID = regexp.MustCompile(`\b12D3Koo[1-9A-HJ-NP-Za-km-z]{45}\b`)

const shortID = 6 // characters

// add adds an event that has words. In the place of its ID a peer has the name that it says, and
// its short name.
func (all *events) add(e p2pdiloco.Event, text string, grave bool, names map[string]string) {
	text, _, _ = strings.Cut(text, "\n") // what follows is for a terminal
	if text == "" {
		return
	}
	text = peerID.ReplaceAllStringFunc(text, func(id string) string {
		return strings.TrimLeft(names[id]+" "+id[len(id)-shortID:], " ")
	})
	all.join(events{all: []Event{
		{Time: e.Time, Text: clip(text, maxText), Grave: grave},
	}})
}

// join adds other events, which get the next numbers.
func (all *events) join(more events) {
	for _, e := range more.all {
		all.number++
		e.Number = all.number
		all.all = append(all.all, e)
	}
	all.all = all.all[max(0, len(all.all)-maxEvents):]
}

// listAfter returns the events after a number.
func (all *events) listAfter(number uint64) (some []Event) {
	for _, e := range all.all {
		if e.Number > number {
			some = append(some, e)
		}
	}
	return some
}
