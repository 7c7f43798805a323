package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// looks has a pace look several times at pieces of 1 MB, of which so many bytes come between two
// looks, and returns at which looks each is asked of others, and when it is over.
func looks(n int, stall, ran time.Duration, each ...uint64) (asked [][]int, over int) {
	coming := make([]allreduce.Coming, len(each))
	for i := range coming {
		coming[i] = allreduce.Coming{Piece: slot.Piece{Range: slot.Range{Begin: uint64(i)}}, Size: 1_000_000}
	}
	asked = make([][]int, len(each))
	p := newPace(0, coming, stall, ran)
	for look := 1; look <= n; look++ {
		for i := range coming {
			coming[i].Bytes = min(coming[i].Size, coming[i].Bytes+each[i])
		}
		late, ended := p.look(uint64(look), coming) // alive messages come
		for _, piece := range late {
			asked[piece.Range.Begin] = append(asked[piece.Range.Begin], look)
		}
		if ended {
			return asked, look
		}
	}
	return asked, 0
}

// What comes at the pace of the reduction is waited for, however slow that is. An owner that gives
// less is late at the first look, and others are asked less and less often. Alive messages are no
// bytes: where hardly any come of all that is missing, the wait ends after two stalls, and not
// while one piece comes as the slowest honest link would bring it.
func TestPaceOfAReduction(t *testing.T) {
	const stall = 4 * time.Second
	for _, c := range []struct {
		name  string
		ran   time.Duration
		each  []uint64
		asked [][]int
		over  int
	}{
		{"as fast as before", 10 * time.Second, []uint64{150_000, 150_000}, [][]int{nil, nil}, 0},
		{"a slow link", 5 * time.Minute, []uint64{16 << 10}, [][]int{nil}, 0},
		{"one drips", 10 * time.Second, []uint64{150_000, 1}, [][]int{nil, {1, 2, 4}}, 0},
		{"one is four times slower than that", 10 * time.Second, []uint64{150_000, 35_000}, [][]int{nil, {1, 2, 4}}, 0},
		{"all drip", 10 * time.Second, []uint64{1, 0}, [][]int{{1, 2, 4}, {1, 2, 4}}, 4},
		{"little comes of one", 10 * time.Second, []uint64{8 << 10, 0}, [][]int{{1, 2, 4}, {1, 2, 4}}, 0},
	} {
		asked, over := looks(6, stall, c.ran, c.each...)
		if over != c.over {
			t.Errorf("%s: over at look %d, want %d", c.name, over, c.over)
		}
		for i := range asked {
			if !slices.Equal(asked[i], c.asked[i]) {
				t.Errorf("%s: piece %d is asked of others at looks %v, want %v", c.name, i, asked[i], c.asked[i])
			}
		}
	}
}

// A piece of which all frames are here still lacks its root, and an owner may withhold that. And
// where not even alive messages come in two looks there is nothing to wait for.
func TestPaceOfTheEnd(t *testing.T) {
	whole := []allreduce.Coming{{Bytes: 100, Size: 100}}
	p := newPace(0, whole, time.Second, time.Second)
	if late, over := p.look(1, whole); len(late) != 1 || over {
		t.Errorf("late: %v, over: %v", late, over)
	}
	p = newPace(7, nil, time.Second, time.Second)
	if _, over := p.look(7, nil); over {
		t.Error("over at the first look")
	}
	if _, over := p.look(7, nil); !over {
		t.Error("not over after a stall")
	}
}
