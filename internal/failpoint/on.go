//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/failpoint/order"
)

// Enabled says whether this program has failpoints.
const Enabled = true

// Here marks a place. If there is an order for it, the process takes the order: it crashes or
// sleeps.
func Here(p Place) {
	path := os.Getenv(order.Variable)
	if path == "" {
		return
	}
	o, ok, err := order.Take(path, string(p))
	if err != nil {
		fmt.Fprintf(os.Stderr, "failpoint %s: %v\n", p, err)
		os.Exit(2)
	}
	if !ok {
		return
	}
	fmt.Fprintf(os.Stderr, "failpoint %s: %s\n", p, o)
	if o.Sleep > 0 {
		time.Sleep(o.Sleep)
		return
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill() // it fails for no process of one's own
	}
	select {} // the signal comes at any moment, and nothing may happen until then
}

// Now is the time of this machine's clock, which may be told to be wrong for this process
// (order.Clock).
func Now() time.Time { return time.Now().Add(ahead()) }

// ahead is by how much the clock is wrong.
var ahead = sync.OnceValue(func() time.Duration {
	by := os.Getenv(order.Clock)
	if by == "" {
		return 0
	}
	d, err := time.ParseDuration(by)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s=%q is no time: write 90m for a clock that is ahead, or -90m\n", order.Clock, by)
		os.Exit(2)
	}
	return d
})
