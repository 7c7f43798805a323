package lab

import (
	"errors"
	"fmt"
	"time"
)

// A Link is what lies between a node and the middle of the network, the same in both directions: a
// packet crosses its sender's link and then its receiver's. The zero value carries everything at
// once.
type Link struct {
	Rate int64 // bits of IP packets a second; 0: without limit
	// from one end to the other; four of them make the round trip between two equal nodes
	Delay time.Duration
	Loss  int // packets of a thousand that vanish, drawn for each
}

// Bounds of a Link. A rate below minRate would hold a packet for minutes.
const (
	minRate    = 1000
	maxRate    = 100_000_000_000
	maxDelay   = time.Minute
	perMille   = 1000
	leastQueue = 64 << 10
)

// Validate reports all that is wrong with l.
func (l Link) Validate() error {
	var errs []error
	if l.Rate != 0 && (l.Rate < minRate || l.Rate > maxRate) {
		errs = append(errs, fmt.Errorf("rate %d bit/s: 0 for no limit, or from %d to %d", l.Rate, minRate,
			int64(maxRate)))
	}
	if l.Delay < 0 || l.Delay > maxDelay {
		errs = append(errs, fmt.Errorf("delay %v: from 0 to %v", l.Delay, maxDelay))
	}
	if l.Loss < 0 || l.Loss > perMille {
		errs = append(errs, fmt.Errorf("loss %d: from 0 to %d per mille", l.Loss, perMille))
	}
	return errors.Join(errs...)
}

// queue is how many bytes may wait for a link with a Rate: what it sends in 100 ms.
func (l Link) queue() int { return max(leastQueue, int(l.Rate/8/10)) }

// sending is how long the transmitter is busy with a packet of size bytes.
func (l Link) sending(size int) time.Duration {
	if l.Rate == 0 {
		return 0
	}
	return time.Duration(int64(size) * 8 * int64(time.Second) / l.Rate)
}
