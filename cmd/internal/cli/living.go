package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/view"
)

// living is a line at the end of a terminal that says how the run goes. All other texts go above
// it. The methods of a nil one do nothing.
type living struct {
	terminal io.Writer
	box      *eventlog.Outbox // that calls write
	line     atomic.Value     // string: what is to stand there; empty: nothing
	asked    atomic.Bool      // the box has a text for the newest line
	stands   bool             // a line does; it belongs to write
}

// newLiving returns nil where a line cannot be drawn again and again.
func newLiving(w io.Writer) *living {
	if is, _ := Terminal(w); !is || os.Getenv("TERM") == "" || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &living{terminal: w}
}

const usualColumns = 80

// What a terminal reads as: clear this line; begin and end a line that is cut off at its margin.
const clearLine, beginCut, endCut = "\r\x1b[K", "\x1b[?7l", "\x1b[?7h"

// write writes a text of whole lines, which may be empty, in the place of the line, and the line
// below it.
func (l *living) write(text []byte) error {
	l.asked.Store(false)
	var b bytes.Buffer
	if l.stands {
		b.WriteString(clearLine)
	}
	b.Write(text)
	line, _ := l.line.Load().(string)
	if l.stands = line != ""; l.stands {
		b.WriteString(beginCut + line + endCut)
	}
	_, err := l.terminal.Write(b.Bytes())
	return err
}

// set has another line stand there.
func (l *living) set(line string) {
	if l == nil {
		return
	}
	l.line.Store(line)
	if !l.asked.Swap(true) { // a terminal that is stopped gets one when it goes on
		_, _ = l.box.Write(nil)
	}
}

// follow shows how the run of a peer goes, until ctx ends.
func (l *living) follow(ctx context.Context, status func() (p2pdiloco.Status, bool)) {
	if l == nil {
		return
	}
	w := view.NewWatcher(view.Source{
		Status: func(context.Context) (p2pdiloco.Status, error) {
			s, ok := status()
			if !ok {
				return s, errors.New("the peer has no identity yet")
			}
			return s, nil
		},
		Waits: Waits,
	})
	var asking sync.WaitGroup
	asking.Go(func() { w.Run(ctx) })
	for ctx.Err() == nil {
		var line string
		_, columns := Terminal(l.terminal)
		changed := w.Look(func(n *view.Newest) {
			if n.Known {
				line = n.Line(max(cmp.Or(columns, usualColumns)-1, 1))
			}
		})
		l.set(line)
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	asking.Wait()
	l.set("")
}
