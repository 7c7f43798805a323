package round

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// question waits for the next moment between two rounds at which the anchor can be loaded.
type question struct {
	prompt   string
	answered chan reply // has room for the one that comes
}

type reply struct {
	text string
	slot uint64
	err  error
}

var (
	errNoTrainer = errors.New("no trainer of this peer's can answer: ask a peer that trains with builtin:gpt, or in " +
		"Python with d.sampler_fn")
	errNoSampler = errors.New("the trainer has nothing to answer with: in Python, give d.sampler_fn a function from " +
		"a prompt to a text")
	errAsked = errors.New("another question waits for its answer: ask when that is there")
)

// Ask is p2pdiloco.Node.Ask. It returns the slot of the anchor that the model is, too.
func (l *Loop) Ask(ctx context.Context, prompt string) (text string, slotNumber uint64, err error) {
	if n := len(prompt); n == 0 || n > trainer.MaxPrompt || !utf8.ValidString(prompt) {
		return "", 0, fmt.Errorf("a prompt of %d bytes: allowed: 1 to %d, of text in UTF-8", n, trainer.MaxPrompt)
	}
	if l.model == nil {
		return "", 0, errNoTrainer
	}
	if _, ok := l.model.Trainer.(trainer.Sampler); !ok {
		return "", 0, errNoTrainer
	}
	q := &question{prompt, make(chan reply, 1)}
	if !l.model.asked.CompareAndSwap(nil, q) {
		return "", 0, errAsked
	}
	defer l.model.asked.CompareAndSwap(q, nil)
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	if !l.life.Go(func() {
		_, err := l.untilEnd(waiting, never)
		ended <- err
	}) {
		return "", 0, l.ended()
	}
	select {
	case r := <-q.answered:
		return r.text, r.slot, r.err
	case err := <-ended:
		return "", 0, err
	}
}

// answer has the live model, which is the anchor of a slot, answer a question; nil: there is none.
// Its error is one that ends the round: then the question waits for the next one.
func (m *model) answer(ctx context.Context, slotNumber uint64, q *question) error {
	if q == nil {
		return nil
	}
	text, err := m.Trainer.(trainer.Sampler).Sample(ctx, q.prompt)
	if ctx.Err() != nil || errors.Is(err, trainer.ErrAnew) {
		return &trainer.Error{Call: "sample", Err: errors.Join(err, ctx.Err())}
	}
	if errors.Is(err, errors.ErrUnsupported) {
		err = errNoSampler
	}
	text = strings.ToValidUTF8(text[:min(len(text), trainer.MaxSample)], "�")
	m.asked.CompareAndSwap(q, nil)
	q.answered <- reply{text, slotNumber, err}
	return nil
}
