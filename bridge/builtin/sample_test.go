package builtin

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func sample(t *testing.T, tr *Trainer, prompt string) string {
	t.Helper()
	text, err := tr.Sample(t.Context(), prompt)
	must(t, err)
	if !strings.HasPrefix(text, prompt) || !utf8.ValidString(text) {
		t.Errorf("%q after the prompt %q", text, prompt)
	}
	return text[len(prompt):]
}

// A model that has learnt a text goes on with words of it, behind a short prompt and behind one
// that its context has no room for. The same question has the same answer.
func TestSample(t *testing.T) {
	tr := newTestTrainer(t, small)
	untrained := sample(t, tr, "the peer ")
	train(t, tr, task(1, "a", 150))
	words := strings.Fields(string(testCorpus().train))
	for _, prompt := range []string{"t", "the peer ", strings.Repeat("the model sends ", 5)} {
		text := sample(t, tr, prompt)
		if again := sample(t, tr, prompt); again != text {
			t.Errorf("after %q: %q, then %q", prompt, text, again)
		}
		known, all := 0, strings.Fields(prompt[strings.LastIndex(prompt, " ")+1:]+text)
		for _, word := range all[:len(all)-1] { // the last one is cut off
			if slices.Contains(words, word) {
				known++
			}
		}
		if len(text) != sampleBytes || 10*known < 8*(len(all)-1) {
			t.Errorf("after %q: %d of %d words are of the text that it learnt: %q", prompt, known, len(all), text)
		}
		if text == untrained {
			t.Error("it answers as before it has learnt")
		}
	}
	if one, other := sample(t, tr, "the "), sample(t, tr, "a "); one == other {
		t.Errorf("two prompts have one answer: %q", one)
	}
	other := newTestTrainer(t, Config{Width: 16, Heads: 2, Context: 16, Batch: 16, HeldOut: 40, Seed: 6})
	must(t, other.Load(t.Context(), export(t, tr)))
	if one, other := sample(t, tr, "the "), sample(t, other, "the "); one == other {
		t.Errorf("two seeds have one answer: %q", one)
	}
}

// A question leaves the training as it is, ends with its context, and says where the model has no
// answer.
func TestSampleAside(t *testing.T) {
	asked, other := newTestTrainer(t, small), newTestTrainer(t, small)
	for slot := range uint64(3) {
		for _, tr := range []*Trainer{asked, other} {
			train(t, tr, task(slot+1, "a", 2))
		}
		sample(t, asked, "the ")
	}
	if !slices.Equal(export(t, asked), export(t, other)) {
		t.Error("the model has other parameters after a question")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if text, err := asked.Sample(ctx, "the "); !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", text, err)
	}
	bad := export(t, asked)
	bad[0] = float32(math.NaN())
	must(t, asked.Load(t.Context(), bad))
	if text, err := asked.Sample(t.Context(), "the "); !errors.Is(err, ErrDiverged) {
		t.Errorf("%q, %v", text, err)
	}
}

// What is likely is taken more often than its probability says, what has none never, and a sum of
// rounded values leaves no gap at the end.
func TestDraw(t *testing.T) {
	counts := [4]int{}
	for i := range 1000 {
		next, err := draw([]float32{0.5, 0, 0.25, 0.25}, float64(i)/1000)
		must(t, err)
		counts[next]++
	}
	if counts[0] < 550 || counts[1] > 0 || counts[2] < 200 || counts[3] < 200 {
		t.Error(counts)
	}
	if next, err := draw([]float32{0.1, 0.9, 0}, 1); next != 1 || err != nil {
		t.Error(next, err)
	}
}
