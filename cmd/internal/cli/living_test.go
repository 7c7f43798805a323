package cli

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func init() { testutil.OneCPU() }

// paper is a terminal that may be stopped.
type paper struct {
	bytes.Buffer
	stopped chan struct{} // closed when it goes on
}

func (p *paper) Write(b []byte) (int, error) {
	if p.stopped != nil {
		<-p.stopped
	}
	return p.Buffer.Write(b)
}

// A living line makes room for each text and comes back below it. A terminal that was stopped gets
// the newest line alone, and at the end there is none.
func TestLivingLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out paper
		line := &living{terminal: &out}
		o := newOutput(io.Discard, nil, line)
		shows := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := out.String(); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			out.Reset()
		}
		fmt.Fprintln(o.errs, "it starts")
		shows("it starts\n")
		line.set("slot 1")
		shows(beginCut + "slot 1" + endCut)
		fmt.Fprintln(o.errs, "it happens")
		shows(clearLine + "it happens\n" + beginCut + "slot 1" + endCut)

		stopped := make(chan struct{})
		out.stopped = stopped
		fmt.Fprintln(o.errs, "before")
		synctest.Wait()
		for slot := range 100 {
			line.set(fmt.Sprint("slot ", slot))
		}
		close(stopped)
		shows(clearLine + "before\n" + beginCut + "slot 1" + endCut + clearLine + beginCut + "slot 99" + endCut)
		if err := o.end(time.Second); err != nil {
			t.Error(err)
		}
		shows(clearLine)
	})
}
