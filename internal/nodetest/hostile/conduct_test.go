package hostile

import (
	"context"
	"fmt"
	"testing"
	"time"

	lab "github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// apart is how far two models are from each other: the greatest distance of two parameters.
func apart(a, b []float32) (most float32) {
	for i := range a {
		most = max(most, a[i]-b[i], b[i]-a[i])
	}
	return most
}

// A peer that sends zeros from the first slot on gets no credit and no seat, and the model is as
// without it.
func TestAFreeRider(t *testing.T) {
	var models [][]float32
	for _, rides := range []bool{false, true} {
		t.Run(fmt.Sprint("free rider: ", rides), func(t *testing.T) {
			nodetest.RunNow(t, nodetest.Spec(16, 4), 4, func(s *nodetest.Swarm) {
				ctx, cancel := context.WithCancel(s.T.Context())
				defer cancel()
				founders := s.Peers
				s.Start(founders...)
				if rides {
					s.Reach(1, founders...)
					checkRider(ctx, t, s, founders)
				}
				s.Finish(5*time.Minute, founders...)
				models = append(models, founders[0].Trainer.(*nodetest.Bowl).X)
			})
		})
	}
	if len(models) < 2 || apart(models[0], models[1]) > 1e-4 {
		t.Error("a peer that sends zeros moves the model")
	}
}

// checkRider has a free rider join some founders, and says what they know of it in the end.
func checkRider(ctx context.Context, t *testing.T, s *nodetest.Swarm, founders []*nodetest.Peer) {
	t.Helper()
	rider := s.Add()
	zeros, _ := lab.Find("zeros")
	folder := t.TempDir()
	turn(ctx, rider, zeros, folder)
	if err := lab.Begin(folder); err != nil {
		t.Fatal(err)
	}
	s.Start(rider)
	s.Reach(15, founders...)
	for _, p := range founders {
		m := s.Member(p, rider)
		if m.Seat != 0 || m.Credit != 0 || len(m.StandsOut) != 1 || m.StandsOut[0].Kind != "zeros" {
			t.Errorf("host %d: seat %d, credit %d, %v", p.Host, m.Seat, m.Credit, m.StandsOut)
		}
	}
	if len(s.Contributions(rider)) < 5 {
		t.Errorf("the rider contributed to slots %v alone", s.Contributions(rider))
	}
}
