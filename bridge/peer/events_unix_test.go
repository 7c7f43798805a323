//go:build unix

package peer

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco"
)

// An events file that takes nothing (a disk that hangs, a pipe that nobody reads) holds no event
// up: the ledger's loop calls onEvent, and would decide nothing meanwhile. What did not fit is
// counted in the place where it is missing.
func TestAnEventsFileThatBlocksHoldsNobodyUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(path, 0o600))
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer reader.Close()
	var said atomic.Int32
	p := &Peer{}
	p.events, err = openEvents(&Settings{Events: path}, func(text string) {
		if strings.Contains(text, "events.missed") {
			said.Add(1)
		}
	}, p.id)
	must(t, err)
	const events = 40
	for range events { // more than a pipe and the queue hold
		p.onEvent(p2pdiloco.Event{Name: "long", Fields: map[string]any{"text": strings.Repeat("x", 64<<10)}})
	}
	got, missed, lines := 0, 0, bufio.NewReader(reader)
	for i := 0; got+missed < events; i++ {
		var e struct {
			Event  string
			Events int
		}
		line, err := lines.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		must(t, err)
		switch e.Event {
		case "events.missed":
			missed += e.Events
		case "long":
			got++
		}
		if i == 0 {
			p.onEvent(p2pdiloco.Event{Name: "after"}) // there is room: the count is put down
		}
	}
	if err := p.events.close(); err != nil || missed == 0 || said.Load() != 1 {
		t.Errorf("%d events and %d that are missing, said %d times: %v", got, missed, said.Load(), err)
	}
}
