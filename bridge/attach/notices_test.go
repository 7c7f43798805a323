//go:build unix

package attach

import (
	"fmt"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
)

// The ledger's loop tells the ranks of events. It does not wait while a rank reads nothing, or the
// socket's loop has other things to do.
func TestANoticeWaitsForNobody(t *testing.T) {
	t.Parallel()
	rank := &attachtest.Rank{Trainer: &attachtest.Toy{}}
	m, tr, ended := attached(t, Config{Timeout: 20 * time.Second}, rank)
	loaded(t, tr)
	busy, begun := make(chan struct{}), make(chan struct{})
	go m.server.loop.do(func() []Effect {
		close(begun)
		<-busy
		return nil
	})
	<-begun
	told := make(chan struct{})
	go func() {
		defer close(told)
		for i := range 2 * maxNotices { // those that do not fit are left out
			m.server.Notify(wire.NoticeInfo, fmt.Sprint(i))
		}
	}()
	select {
	case <-told:
	case <-time.After(20 * time.Second):
		t.Error("an event waits for the loop")
	}
	close(busy)
	<-told
	m.server.End(wire.CodeEnded, "the end")
	wantCode(t, <-ended[0], wire.CodeEnded, "the end")
	if n := len(rank.Notices); n != maxNotices || rank.Notices[n-1].Text != fmt.Sprint(maxNotices-1) {
		t.Errorf("%d notices, the last %+v", n, rank.Notices[n-1])
	}
}
