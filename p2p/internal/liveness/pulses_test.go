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

// TestOwnStandstillJudgesNobody: silence counts in own pulses, however late these are.
func TestOwnStandstillJudgesNobody(t *testing.T) {
	s := NewSigns()
	s.Pulsed("b", appendPulse(nil, 1))
	for i := range pulsesMissed {
		if ids := s.silent(); len(ids) != 0 {
			t.Errorf("silent after %d own pulses: %v", i+1, ids)
		}
	}
	if ids := s.silent(); len(ids) != 1 || ids[0] != "b" {
		t.Errorf("after one more: silent %v", ids)
	}
}
