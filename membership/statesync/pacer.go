package statesync

import (
	"context"

	"golang.org/x/time/rate"
)

// pacer spreads the bytes of all streams over time.
type pacer struct {
	// bytes to send at once: few at low rates, so that many streams take turns within a second
	slice   int
	limiter *rate.Limiter
}

// newPacer makes a pacer of so many bytes a second; 0 means no limit.
func newPacer(bytesPerSecond int64) pacer {
	const least, most, turns = 4 << 10, 256 << 10, 64
	if bytesPerSecond <= 0 {
		return pacer{most, rate.NewLimiter(rate.Inf, most)}
	}
	slice := int(min(max(bytesPerSecond/turns, least), most))
	return pacer{slice, rate.NewLimiter(rate.Limit(bytesPerSecond), slice)}
}

// wait returns when n bytes, a slice at most, may leave, or with the error of ctx. They use up
// their time as often as times says.
func (p pacer) wait(ctx context.Context, n, times int) error {
	for range times {
		if err := p.limiter.WaitN(ctx, n); err != nil {
			return err
		}
	}
	return nil
}
