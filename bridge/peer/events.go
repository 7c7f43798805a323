package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// eventsTime is how long the end of a peer waits for the disk to take the last events.
const eventsTime = 5 * time.Second

// eventsFile writes events to a file. The node does not wait for its disk: then it would take part
// in nothing.
type eventsFile struct {
	file   *eventlog.Writer
	lines  *eventlog.Outbox
	notice func(text string)
	about  func() p2pdiloco.PeerID // the peer
	// said once each
	full, behind sync.Once
	failing      atomic.Bool // events are missing since the last one that was written
}

func openEvents(s *Settings, notice func(string), about func() p2pdiloco.PeerID) (*eventsFile, error) {
	file, err := eventlog.Create(s.Events, eventlog.Rotation{Size: int64(s.EventsSize) << 20, Keep: s.EventsKeep})
	if err != nil {
		return nil, fmt.Errorf("events file: %w", err)
	}
	say := func(text string) { notice("events file: " + text) }
	e := &eventsFile{file: file, notice: say, about: about}
	e.lines = eventlog.NewOutbox(e.write, e.missed)
	return e, nil
}

// add takes an event. It returns at once.
func (e *eventsFile) add(event p2pdiloco.Event) {
	line, err := json.Marshal(event)
	if err != nil {
		e.failed(err)
		return
	}
	_, _ = e.lines.Write(line)
}

func (e *eventsFile) write(line []byte) error {
	err := e.file.Line(line)
	switch {
	case errors.Is(err, eventlog.ErrNotRotated):
		e.full.Do(func() { e.notice(err.Error() + ": free disk space, or give this user write access to its folder") })
	case err != nil:
		e.failed(err)
	case e.failing.CompareAndSwap(true, false):
		e.notice("it is written again")
	}
	return err
}

func (e *eventsFile) failed(err error) {
	if e.failing.CompareAndSwap(false, true) {
		e.notice(err.Error() + "; events are missing there")
	}
}

// missed is the line in the place of events that were left out because the disk did not take them.
func (e *eventsFile) missed(events int) []byte {
	e.behind.Do(func() {
		e.notice("its disk was too slow, and events are missing there (events.missed)")
	})
	line, _ := json.Marshal(p2pdiloco.Event{ // it has no fields that fail
		Time: time.Now(), Name: "events.missed", Peer: e.about(), Fields: map[string]any{"events": events},
	})
	return line
}

// close writes the last events. A file whose disk hangs stays open until the program ends.
func (e *eventsFile) close() error {
	if _, err := e.lines.Close(eventsTime); errors.Is(err, eventlog.ErrBlocked) {
		return errors.New("events file: its disk hangs, and the last events are missing there")
	}
	return e.file.Close()
}
