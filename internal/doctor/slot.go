package doctor

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
)

// The exchange of a round should be short beside its inner steps. Beyond this share of both, peers
// wait too long.
const waiting = .10

// slot says how long a round's exchange will take: each member sends and receives 2(N-1)/N of the
// model, and the slowest connection sets the pace of all. A measured connection is as fast as the
// slower of its two ends, so a slow peer is noticed, and a fast one is never overrated.
func (v *View) slot() (f Finding, ok bool) {
	s := &v.Slot
	for _, p := range v.Peers {
		if rate := min(p.Up, p.Down); p.Member && p.Error == "" && rate > 0 && (s.Slow == 0 || rate < s.Slow) {
			s.Slow, s.Slowest = rate, p.ID
		}
	}
	if s.Slow == 0 || s.Bytes == 0 {
		return f, false
	}
	n := float64(max(s.Members, 2))
	s.Takes = seconds(2 * (n - 1) / n * float64(s.Bytes) / s.Slow)
	what := fmt.Sprintf("to exchange %s (%s) among %.0f peers takes %s a round; the slowest connection, to %s, "+
		"carries %s",
		humanize.IBytes(s.Bytes), s.Codec, n, short(s.Takes), s.Slowest[max(0, len(s.Slowest)-8):], bits(s.Slow))
	if s.Step == 0 {
		return Found("slot", OK, what+fmt.Sprintf("; inner phases should take %s or more",
			short(seconds(s.Takes.Seconds()*(1-waiting)/waiting))), ""), true
	}
	s.Inner = s.Step * time.Duration(s.Steps)
	share := s.Takes.Seconds() / (s.Takes + s.Inner).Seconds()
	what += fmt.Sprintf("; the inner phase takes %s", short(s.Inner))
	slow := s.Beside && s.Takes > s.Inner || !s.Beside && share > waiting
	if s.Beside && !slow {
		what += ", and runs beside it"
	}
	do := fmt.Sprintf("peers will wait for %.0f%% of the time: give more --inner-steps, a smaller --codec (int8, "+
		"int4), or --mode streaming, in which the exchange runs beside training", 100*share)
	return Found("slot", levelOf(false, slow), what, do), true
}
