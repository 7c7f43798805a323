//go:build !failpoints

package failpoint

import "time"

// Enabled says whether this program has failpoints.
const Enabled = false

// Here does nothing.
func Here(Place) {}

// Now is the time of this machine's clock.
func Now() time.Time { return time.Now() }
