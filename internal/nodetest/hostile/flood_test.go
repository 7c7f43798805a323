package hostile

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/gossip"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// A stranger asks for records by gossip and cannot be answered directly: nobody may gossip the
// answers.
func TestAnAnnouncedQuestionIsNotAnsweredByGossip(t *testing.T) {
	nodetest.Once(t, 60, 3, func(s *nodetest.Swarm) {
		s.Start(s.Peers...)
		s.Until(time.Minute, "running", func() bool { return s.Peers[0].Applied() >= 8 })
		run := s.Peers[0].Node.Load().RunID()
		host := s.Net.Add()
		cfg := p2p.LAN()
		cfg.Bootstrap = []string{s.Net.Addr(0)}
		stranger, err := p2p.New(context.Background(), cfg, p2p.WithHost(s.Net.Hosts[host]))
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		for _, p := range s.Peers {
			s.Net.Connect(host, p.Host)
		}
		var commits atomic.Int64
		topic, err := gossip.Join(context.Background(), stranger.Host(), gossip.Config{
			Topic: "/p2pdiloco/run/" + run.String(), Kinds: []uint8{nodetest.LedgerKind}, Boot: 1,
			Deliver: func(_ slot.PeerID, _ uint8, b []byte) {
				if slot.MessageType(b[1]) == slot.TypeCommit {
					commits.Add(1)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer topic.Close()
		time.Sleep(3 * time.Second)
		before, slots := commits.Load(), s.Peers[0].Applied()
		need, err := wire.Seal(stranger, run, 7, wire.Need{From: 1})
		if err != nil {
			t.Fatal(err)
		}
		const questions = 20
		for range questions {
			if err := topic.Publish(context.Background(), nodetest.LedgerKind, need); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		got, applied := commits.Load()-before, s.Peers[0].Applied()-slots
		t.Logf("%d questions: %d records gossiped while %d slots were applied", questions, got, applied)
		if got > 4*int64(applied)+8 {
			t.Errorf("%d questions of a stranger had %d records gossiped", questions, got)
		}
	})
}
