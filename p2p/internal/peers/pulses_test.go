package peers

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestBulkIsLifeForAWhile: bulk connections are others than libp2p's, which may have died alone.
func TestBulkIsLifeForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := members(t)
		conn := a.host.Network().ConnsToPeer(b.host.ID())[0]
		b.members.Set(nil) // it pulses no more
		for second := range pulsesExcused + pulsesMissed {
			a.signs.Saw(b.host.ID(), true)
			time.Sleep(time.Second)
			if conn.IsClosed() && second < pulsesExcused-2 {
				t.Fatalf("disconnected after %d s in which bulk came", second)
			}
		}
		if !conn.IsClosed() {
			t.Error("bulk that drips stands for pulses for ever")
		}
	})
}

// TestOwnStandstillJudgesNobody: a node whose own pulses come at almost twice their interval blames
// nobody who is as late: both may be on one machine that has much other work. One that is on time
// does.
func TestOwnStandstillJudgesNobody(t *testing.T) {
	for _, late := range []time.Duration{0, 1900 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			_, a, b := members(t)
			conn := a.host.Network().ConnsToPeer(b.host.ID())[0]
			a.late.Store(int64(late))
			b.members.Set(nil) // it pulses no more for a while
			time.Sleep(7 * time.Second)
			a.late.Store(0)
			if conn.IsClosed() != (late == 0) {
				t.Errorf("late by %v itself: closed after 7 s of silence: %v", late, conn.IsClosed())
			}
		})
	}
}
