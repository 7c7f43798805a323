package liveness

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

// TestOwnStandstillJudgesNobody: what came meanwhile waits in the kernel.
func TestOwnStandstillJudgesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := members(t)
		now := time.Now().Add(time.Hour)
		id := b.host.ID()
		a.signs.forgive(now)
		if ids := a.pulses.silent(now.Add(time.Second)); len(ids) != 0 {
			t.Error("judged by the time that this process stood still")
		}
		if ids := a.pulses.silent(now.Add(time.Minute)); len(ids) != 1 || ids[0] != id {
			t.Errorf("silent %v", ids)
		}
	})
}
