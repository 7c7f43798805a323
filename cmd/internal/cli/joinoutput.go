package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// outputTime is how long the end of a program waits for somebody who reads what it has printed.
const outputTime = 3 * time.Second

// hurryTime is the same for a program that is to stop at once.
const hurryTime = 200 * time.Millisecond

// output is what the process of a node prints. The node never waits until it is read: then it would
// be heard by the others, and take part in nothing.
type output struct{ out, errs *eventlog.Outbox }

func newOutput(stdout, stderr io.Writer) output { return output{newBox(stdout), newBox(stderr)} }

func newBox(w io.Writer) *eventlog.Outbox {
	write := func(text []byte) error {
		_, err := w.Write(text)
		return err
	}
	return eventlog.NewOutbox(write, func(lines int) []byte {
		return fmt.Appendf(nil, "(%d lines are missing here: nobody read this output)\n", lines)
	})
}

// end prints what is left, for as long as somebody reads it, and no longer than so long for each
// output. The error is that of stdout.
func (o output) end(patience time.Duration) error {
	_, err := o.out.Close(patience)
	_, _ = o.errs.Close(patience)
	return err
}
