package embed

import (
	"context"
	"encoding/json"
	"maps"
	"sync"

	"github.com/p2pdiloco/p2pdiloco"
)

const maxEvents = 1024 // kept until they are asked for

// events keeps the newest events of a node until they are asked for.
type events struct {
	mu struct {
		sync.Mutex
		kept    []p2pdiloco.Event // oldest first
		lost    uint64            // dropped since the last event that was returned
		ended   bool
		changed chan struct{} // closed when there is a new event
	}
}

func newEvents() *events {
	e := &events{}
	e.mu.changed = make(chan struct{})
	return e
}

// add never waits.
func (e *events) add(event p2pdiloco.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.mu.kept) == maxEvents {
		e.mu.kept[0] = p2pdiloco.Event{} // let go of its fields
		e.mu.kept = e.mu.kept[1:]
		e.mu.lost++
	}
	e.mu.kept = append(e.mu.kept, event)
	e.news()
}

// end marks that no more events will come.
func (e *events) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.ended = true
	e.news()
}

func (e *events) news() {
	close(e.mu.changed)
	e.mu.changed = make(chan struct{})
}

// next is the oldest event that was not returned yet, as JSON. It waits until there is one or ctx
// ends.
func (e *events) next(ctx context.Context) (string, error) {
	for {
		event, lost, changed, err := e.take()
		if err != nil {
			return "", err
		}
		if changed == nil {
			return encode(event, lost)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", errAgain
		}
	}
}

// take is the next event, or a channel that closes when there is one.
func (e *events) take() (event p2pdiloco.Event, lost uint64, changed <-chan struct{}, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case len(e.mu.kept) > 0:
		event, lost = e.mu.kept[0], e.mu.lost
		e.mu.kept[0] = p2pdiloco.Event{}
		e.mu.kept, e.mu.lost = e.mu.kept[1:], 0
		return event, lost, nil, nil
	case e.mu.ended:
		return event, 0, nil, errNone
	}
	return event, 0, e.mu.changed, nil
}

func encode(event p2pdiloco.Event, lost uint64) (string, error) {
	if lost > 0 {
		event.Fields = maps.Clone(event.Fields)
		if event.Fields == nil {
			event.Fields = make(map[string]any)
		}
		event.Fields["events_lost"] = lost
	}
	b, err := json.Marshal(event)
	return string(b), err
}
