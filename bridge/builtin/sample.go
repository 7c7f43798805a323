package builtin

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
)

const (
	sampleBytes       = 256 // that Sample adds to a prompt
	sampleTemperature = 0.7 // below 1: what is likely is taken more often than the model says
)

// Sample is a prompt with the bytes that the model draws after it. The same model and prompt give
// the same text. What is no UTF-8 is shown as one mark.
func (t *Trainer) Sample(ctx context.Context, prompt string) (string, error) {
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(prompt)) // it never fails
	rng := rand.New(rand.NewPCG(t.cfg.Seed, seed.Sum64()))
	text := []byte(prompt)
	for range sampleBytes {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		next, err := t.model.next(text, rng)
		if err != nil {
			return "", err
		}
		text = append(text, next)
	}
	return strings.ToValidUTF8(string(text), "�"), nil
}

// next draws the byte after a text, of which the model sees as much of the end as its context has
// room for. What stands behind the text in that changes nothing: attention is causal.
func (m *model) next(text []byte, rng *rand.Rand) (byte, error) {
	seen := text[max(0, len(text)-m.context):]
	window := make([]byte, m.context)
	copy(window, seen)
	m.forward(batch{window, window}) // the loss is of no use here
	last := len(seen) - 1
	return draw(m.logits[last*m.vocab:(last+1)*m.vocab], rng.Float64())
}

// draw takes the value at which the sum of the probabilities, sharpened by the temperature, comes
// to a part at of their whole, from 0 to 1.
func draw(probabilities []float32, at float64) (byte, error) {
	sharp, sum := make([]float64, len(probabilities)), 0.0
	for i, p := range probabilities {
		sharp[i] = math.Pow(float64(p), 1/sampleTemperature)
		sum += sharp[i]
	}
	if math.IsNaN(sum) || sum == 0 {
		return 0, fmt.Errorf("%w: the model's probabilities are not finite", ErrDiverged)
	}
	rest, last := at*sum, 0
	for i, p := range sharp {
		if p == 0 {
			continue
		}
		if last = i; rest < p {
			break
		}
		rest -= p
	}
	return byte(last), nil
}
