package replica

import (
	"context"
	"testing"
)

// The ledger asks for an outcome again and again until it is held. A job that takes longer than
// that goes on; one for another outcome takes its place.
func TestAJobThatIsAskedForAgainGoesOn(t *testing.T) {
	var j jobs
	said, end := make(chan string), make(chan struct{})
	start := func(what, name string) {
		j.start(t.Context(), "hold", what, func(ctx context.Context) {
			said <- name + " runs"
			select {
			case <-end:
				said <- name + " ended"
			case <-ctx.Done():
				said <- name + " was replaced"
			}
		})
	}
	expect := func(want string) {
		t.Helper()
		if got := <-said; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	start("a", "first")
	expect("first runs")
	start("a", "again")
	start("b", "other")
	expect("first was replaced")
	expect("other runs")
	start("b", "again")
	end <- struct{}{}
	expect("other ended")
	j.wait()
	start("b", "later")
	expect("later runs")
	close(end)
	expect("later ended")
	j.wait()
}
