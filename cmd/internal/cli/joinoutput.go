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
type output struct {
	out, errs *eventlog.Outbox
	line      *living // the last one of errs; nil: there is none
}

// newOutput makes the output of a process. line is of stderr, or nil.
func newOutput(stdout, stderr io.Writer, line *living) output {
	o := output{out: newBox(writeTo(stdout)), line: line}
	if line == nil {
		o.errs = newBox(writeTo(stderr))
	} else {
		o.errs = newBox(line.write)
		line.box = o.errs
	}
	return o
}

func writeTo(w io.Writer) func([]byte) error {
	return func(text []byte) error {
		_, err := w.Write(text)
		return err
	}
}

func newBox(write func([]byte) error) *eventlog.Outbox {
	return eventlog.NewOutbox(write,
		func(lines int) []byte {
			return fmt.Appendf(nil, "(%d lines are missing here: nobody read this output)\n", lines)
		},
	)
}

// end prints what is left, for as long as somebody reads it, and no longer than so long for each
// output. The error is that of stdout.
func (o output) end(patience time.Duration) error {
	o.line.set("")
	_, err := o.out.Close(patience)
	_, _ = o.errs.Close(patience)
	return err
}
