package attach

import (
	"context"
	"errors"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// talker is a toy that answers.
type talker struct {
	attachtest.Toy
	text string
	err  error
}

func (t *talker) Sample(_ context.Context, prompt string) (string, error) {
	return prompt + t.text, t.err
}

// The lowest rank that can answers for all. One that cannot, as an older client, which measures its
// loss instead, is passed over; one that fails is named, and asked again the next time.
func TestSample(t *testing.T) {
	t.Parallel()
	m := newMachine(t, Config{})
	low, high := &talker{text: " and on"}, &talker{text: " and so on"}
	all := []trainer.Trainer{&attachtest.Toy{}, low, high}
	rs := make([]*attachtest.Rank, len(all))
	for i, tr := range all {
		rs[i] = &attachtest.Rank{Trainer: tr}
	}
	ranks(bounded(t), m, "a", rs...)
	tr, err := m.server.Trainer(bounded(t))
	must(t, err)
	loaded(t, tr)
	sample := func(want string) {
		t.Helper()
		if text, err := tr.Sample(bounded(t), "once"); text != want || (err == nil) != (want != "") {
			t.Errorf("%q, %v", text, err)
		}
	}
	sample("once and on")
	low.err = errors.ErrUnsupported
	sample("once and so on")
	high.err = errors.New("out of words")
	if _, err := tr.Sample(bounded(t), "once"); err == nil {
		t.Error("a rank that failed is passed over")
	} else {
		wantText(t, err, "rank 2 of 3: out of words")
	}
	high.err = errors.ErrUnsupported
	if _, err := tr.Sample(bounded(t), "once"); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	low.err = nil
	sample("once and on")
	if _, err := tr.Evaluate(bounded(t)); err != nil {
		t.Error(err)
	}
}
