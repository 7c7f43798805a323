package plugin

import (
	"errors"
	"time"
)

// closeGrace is how long Close waits for the call under way, and for destroy.
const closeGrace = 30 * time.Second

// destroy ends the trainer with the library's own function, where the library still answers. limit
// bounds the wait for a call that is under way.
func (u *turns) destroy(limit time.Duration) error {
	if p := u.pending; p != nil {
		p.cancelled()
		select {
		case <-p.done:
			u.ended(p)
		case <-time.After(min(closeGrace, limit)):
			u.host.kill()
			<-p.done
			return nil // the call was only asked to end early, and the peer is leaving
		}
	}
	if u.host.dead != nil {
		return nil
	}
	c := &call{request: request{op: opClose}, doing: "destroy"}
	if u.failed {
		c.arg[0] = 1
	}
	u.host.timeout = min(u.host.timeout, closeGrace)
	<-u.host.start(c).done
	if errors.Is(c.err, ErrHung) {
		return u.unlessFailed(c.err)
	}
	select {
	case <-u.host.exited:
	case <-time.After(u.host.timeout):
		u.host.kill()
		<-u.host.exited
	}
	if !u.host.endedWell() {
		return u.unlessFailed(u.host.fault(c, u.host.ending(), ErrCrashed))
	}
	return nil
}

// unlessFailed is err, or nil for a trainer whose failure was reported before.
func (u *turns) unlessFailed(err error) error {
	if u.failed {
		return nil
	}
	return err
}
