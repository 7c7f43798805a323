package p2pdiloco

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/gossip"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// A stranger asks for records by gossip and cannot be answered directly: nobody may gossip the answers.
func TestAnAnnouncedQuestionIsNotAnsweredByGossip(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(60, 3), 3, func(s *swarm) {
		s.start(s.peers...)
		s.until(time.Minute, "running", func() bool { return s.peers[0].applied() >= 8 })
		run := s.peers[0].node.Load().RunID()
		host := s.net.Add()
		cfg := p2p.LAN()
		cfg.Bootstrap = []string{s.net.Addr(0)}
		stranger, err := p2p.New(context.Background(), cfg, p2p.WithHost(s.net.Hosts[host]))
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		for _, p := range s.peers {
			s.net.Connect(host, p.host)
		}
		var commits atomic.Int64
		topic, err := gossip.Join(context.Background(), stranger.Host(), gossip.Config{
			Topic: "/p2pdiloco/run/" + run.String(), Kinds: []uint8{kindLedger}, Boot: 1,
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
		before, slots := commits.Load(), s.peers[0].applied()
		need, err := membership.Seal(stranger, run, 7, membership.Need{From: 1})
		if err != nil {
			t.Fatal(err)
		}
		const questions = 20
		for range questions {
			if err := topic.Publish(context.Background(), kindLedger, need); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		got, applied := commits.Load()-before, s.peers[0].applied()-slots
		t.Logf("%d questions: %d records gossiped while %d slots were applied", questions, got, applied)
		if got > 4*int64(applied)+8 {
			t.Errorf("%d questions of a stranger had %d records gossiped", questions, got)
		}
	})
}
