package formation

import (
	"context"
	"errors"
	"time"
)

// missingPause is the time between two warnings that no peer was found.
const missingPause = 20 * time.Second

var errMissing = errors.New("some answer, and none of them knows a peer of the run")

// warnMissing logs that no peer of the ticket's run was found.
func (f *Formation) warnMissing(err error) {
	f.log.Warn("nobody of the ticket's run is found yet; still looking. If the run's peers have ended or moved, ask "+
		"one for a new ticket (p2pdiloco invite)", "err", err)
}

// awaitDHT waits until a bootstrap address answers, if any were given. Otherwise a typo in an
// address would found a second run.
func (f *Formation) awaitDHT(ctx context.Context) error {
	poll := time.NewTicker(f.cfg.Hello)
	defer poll.Stop()
	warned, wait := time.Now(), f.cfg.Discovery
	for !f.cfg.Found && f.spec() == nil {
		err := f.cfg.Network.Bootstrap().Err()
		if err == nil {
			return nil
		}
		if time.Since(warned) > wait {
			warned, wait = time.Now(), missingPause
			if f.cfg.Ticket != nil {
				f.warnMissing(err)
				continue
			}
			f.log.Warn("still trying; founding is off until a bootstrap address answers (Found, --found, overrides)",
				"err", err)
		}
		if err := f.wait(ctx, poll.C); err != nil {
			return err
		}
	}
	return nil
}
