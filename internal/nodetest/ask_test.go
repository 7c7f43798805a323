package nodetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// talker is a bowl that answers.
type talker struct {
	*Bowl
	say func(prompt string) (string, error)
}

func (t talker) Sample(_ context.Context, prompt string) (string, error) { return t.say(prompt) }

// One question waits at a time, until the next round begins or who asks has gone. What its trainer
// cannot do the person is told, and the run goes on to its end, which ends a question, too.
func TestAsk(t *testing.T) {
	Once(t, 12, 2, func(s *Swarm) {
		s.Pace(100 * time.Millisecond) // rounds of 2 s
		silent, talks := s.Peers[0], s.Peers[1]
		talks.Trainer = talker{talks.Trainer.(*Bowl), func(prompt string) (string, error) {
			switch prompt {
			case "fail":
				return "", errors.New("out of words")
			case "cannot":
				return "", errors.ErrUnsupported
			case "long":
				return "\xff" + strings.Repeat("é", trainer.MaxSample), nil
			}
			return prompt + " and on", nil
		}}
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		node := talks.Node.Load()
		refused := func(who *p2pdiloco.Node, prompt, want string) {
			s.T.Helper()
			if a, err := who.Ask(s.T.Context(), prompt); err == nil || !strings.Contains(err.Error(), want) {
				s.T.Errorf("%.20q: %+v, %v; want %s", prompt, a, err, want)
			}
		}
		for _, prompt := range []string{"", strings.Repeat("x", trainer.MaxPrompt+1), "\xff"} {
			began := time.Now()
			refused(node, prompt, "allowed: 1 to 2048, of text in UTF-8")
			if time.Since(began) > 0 {
				s.T.Error("it waits to be refused")
			}
		}
		refused(silent.Node.Load(), "x", "no trainer of this peer's can answer")

		ctx, cancel := context.WithCancel(s.T.Context())
		gone := make(chan error)
		go func() { _, err := node.Ask(ctx, "x"); gone <- err }()
		time.Sleep(100 * time.Millisecond)
		refused(node, "y", "another question waits")
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			s.T.Error(err)
		}

		before := talks.Applied()
		if a, err := node.Ask(s.T.Context(), "Once"); err != nil || a.Text != "Once and on" || a.Slot <= before {
			s.T.Errorf("after slot %d: %+v, %v", before, a, err)
		}
		refused(node, "fail", "out of words")
		refused(node, "cannot", "give d.sampler_fn a function")
		if a, err := node.Ask(s.T.Context(), "long"); err != nil || len(a.Text) > trainer.MaxSample+8 ||
			!strings.HasPrefix(a.Text, "�éé") || strings.ToValidUTF8(a.Text, "") != a.Text {
			s.T.Errorf("%d bytes, %.20q, %v", len(a.Text), a.Text, err)
		}
		s.Reach(11, talks)
		var last p2pdiloco.Answer
		var err error
		for err == nil {
			last, err = node.Ask(s.T.Context(), "Once")
		}
		if !errors.Is(err, p2pdiloco.ErrRunEnded) && !errors.Is(err, p2pdiloco.ErrClosed) {
			s.T.Errorf("after %+v: %v", last, err)
		}
		s.Finish(time.Minute, s.Peers...)
	})
}
