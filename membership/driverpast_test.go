package membership

import (
	"testing"
	"testing/synctest"
)

// A driver verifies a past itself, and a newcomer starts from it. Without that it would wait for
// ever: no worker knows of such work.
func TestDriverOpensAPast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules := simRules(130, 2)
		rules.SummaryEvery = 16
		s := newSwarm(t, rules)
		a := s.start(1, newSimDisk(s, 1))
		s.start(2, newSimDisk(s, 2))
		a.await("old records to be forgotten", func(v View) bool { return v.Floor > 0 })
		c := s.start(3, newSimDisk(s, 3))
		v := c.await("a third member", func(v View) bool { return len(v.Members) == 3 })
		if v.Floor == 0 {
			t.Error("the newcomer holds all records")
		}
		s.end()
	})
}
