package peer

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func init() { testutil.OneCPU() }

// What fails again and again is said once in ten seconds. Other lines come as they are.
func TestNoLineComesTwiceInTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		level := LogLevel("info")
		log := level.Logger(&out)
		fails := func(of string, n int) {
			log.Warn("work failed", "err", "open /"+of+"/tmp-"+strings.Repeat("1", n)+": permission denied", "slot", n)
		}
		lines := func(want int) {
			t.Helper()
			if got := strings.Count(out.String(), "\n"); got != want {
				t.Errorf("%d lines, not %d:\n%s", got, want, &out)
			}
		}
		for i := range 9 {
			fails("p", i+1)
			time.Sleep(time.Second)
		}
		lines(1)
		fails("other", 1)
		log.Error("work failed", "err", "open /p/tmp-1: permission denied", "slot", 1)
		for i := range 3 {
			log.Info("slot applied", "slot", i)
			log.Info("searching")
		}
		lines(7)
		time.Sleep(time.Second)
		fails("p", 1)
		lines(8)
	})
}
