package hops

import (
	"fmt"
	"slices"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
)

// without is whom each of n members reaches if some pairs do not reach each other.
func without(n int, cut ...[2]int) map[peer.ID][]peer.ID {
	reaches := make(map[peer.ID][]peer.ID)
	for i := range n {
		reaches[name(i)] = nil
		for j := range n {
			if i != j && !slices.Contains(cut, [2]int{i, j}) && !slices.Contains(cut, [2]int{j, i}) {
				reaches[name(i)] = append(reaches[name(i)], name(j))
			}
		}
	}
	return reaches
}

func name(i int) peer.ID { return peer.ID(fmt.Sprintf("member %02d", i)) }

// TestSpread: nobody forwards more than it must, and nobody who reaches only one of both.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		n    int
		cut  [][2]int
		most int // directions that one member forwards
	}{
		{3, [][2]int{{0, 1}}, 2},
		{4, [][2]int{{0, 1}}, 1},
		{5, [][2]int{{0, 1}, {2, 3}}, 1},
		{5, [][2]int{{0, 1}, {0, 2}}, 2},                 // 3 and 4 alone reach all
		{8, [][2]int{{0, 1}, {2, 3}, {4, 5}, {6, 7}}, 2}, // one by one is not the best there is
	} {
		reaches, given := without(c.n, c.cut...), make(map[peer.ID]int)
		for _, p := range c.cut {
			for _, ends := range [][2]peer.ID{{name(p[0]), name(p[1])}, {name(p[1]), name(p[0])}} {
				via := spread(reaches, ends[0], ends[1])
				if !slices.Contains(reaches[via], ends[0]) || !slices.Contains(reaches[via], ends[1]) {
					t.Errorf("%d members without %v: %q forwards from %q to %q", c.n, c.cut, via, ends[0], ends[1])
				}
				given[via]++
			}
		}
		for via, n := range given {
			if n > c.most {
				t.Errorf("%d members without %v: %q forwards %d directions", c.n, c.cut, via, n)
			}
		}
	}
	if via := spread(without(2, [2]int{0, 1}), name(0), name(1)); via != "" {
		t.Errorf("%q forwards where nobody can", via)
	}
	if via := spread(without(maxSpread+1, [2]int{0, 1}), name(0), name(1)); via != "" {
		t.Errorf("%q forwards in a group that is too large to look at", via)
	}
	if via := spread(without(3), name(0), name(1)); via != name(2) {
		t.Errorf("%q forwards for a pair that is connected now and then", via)
	}
}
