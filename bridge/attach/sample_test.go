package attach

import (
	"context"
	"errors"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// talker is a toy that answers. Whether it can is said by the prompt.
type talker struct {
	attachtest.Toy
	text  string
	fails map[string]error
}

func (t *talker) Sample(_ context.Context, prompt string) (string, error) {
	return prompt + t.text, t.fails[prompt]
}

// The lowest rank that can answers for all. One that cannot, as an older client, which measures its
// loss instead, is passed over; one that fails is named, and asked again the next time.
func TestSample(t *testing.T) {
	t.Parallel()
	m := newMachine(t, Config{})
	none := errors.ErrUnsupported
	var all []*attachtest.Rank
	for _, tr := range []trainer.Trainer{
		&attachtest.Toy{},
		&talker{text: " and on", fails: map[string]error{"high": none, "fail": none, "nobody": none}},
		&talker{text: " and so on", fails: map[string]error{"fail": errors.New("out of words"), "nobody": none}},
	} {
		all = append(all, &attachtest.Rank{Trainer: tr})
	}
	ranks(bounded(t), m, "a", all...)
	tr, err := m.server.Trainer(bounded(t))
	must(t, err)
	loaded(t, tr)
	for range 2 {
		for prompt, want := range map[string]string{"once": "once and on", "high": "high and so on"} {
			if text, err := tr.Sample(bounded(t), prompt); text != want || err != nil {
				t.Errorf("%q, %v; want %q", text, err, want)
			}
		}
		if _, err := tr.Sample(bounded(t), "fail"); err == nil {
			t.Error("a rank that failed is passed over")
		} else {
			wantText(t, err, "rank 2 of 3: out of words")
		}
		if _, err := tr.Sample(bounded(t), "nobody"); !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	}
	if _, err := tr.Evaluate(bounded(t)); err != nil {
		t.Error(err)
	}
}
