package round

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// lost is a trainer whose live model goes when it is asked, once.
type lost struct {
	trainer.Trainer
	times int
}

func (l *lost) Sample(context.Context, string) (string, error) {
	if l.times++; l.times == 1 {
		return "", fmt.Errorf("%w: killed", trainer.ErrAnew)
	}
	return "here", nil
}

// A question whose trainer goes away meanwhile waits for the one that comes next. One that nobody
// waits for any more blocks nothing.
func TestAQuestionWaitsForTheNextTrainer(t *testing.T) {
	q := &question{prompt: "where?", answered: make(chan reply, 1)}
	m := &model{Trainer: &lost{}}
	m.asked.Store(q)
	if err := m.answer(t.Context(), 3, q); !errors.Is(err, trainer.ErrAnew) || m.asked.Load() != q {
		t.Fatalf("%v; it waits: %v", err, m.asked.Load() == q)
	}
	if err := m.answer(t.Context(), 4, m.asked.Load()); err != nil || m.asked.Load() != nil {
		t.Fatal(err)
	}
	if r := <-q.answered; r != (reply{"here", 4, nil}) {
		t.Errorf("%+v", r)
	}
	if err := m.answer(t.Context(), 5, m.asked.Load()); err != nil || len(q.answered) > 0 {
		t.Errorf("nobody asks: %v", err)
	}
	if _, _, err := (&Loop{}).Ask(t.Context(), "where?"); !errors.Is(err, errNoTrainer) {
		t.Error(err)
	}
}
