package builtin

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ParseConfig reads the text that bridge/trainers/cuda/train.cu is configured by: a key and a value
// a line, like "layers 2", and the path of a text after "data". It passes over keys that this
// trainer has no use for: dtype and device.
func ParseConfig(text string) (c Config, corpus CorpusConfig, err error) {
	whole := map[string]*int{
		"layers": &c.Layers, "width": &c.Width, "heads": &c.Heads, "context": &c.Context, "batch": &c.Batch,
		"warm_up": &c.WarmUp, "held_out": &c.HeldOut,
	}
	decimal := map[string]*float64{
		"learning_rate": &c.LearningRate, "beta1": &c.Beta1, "beta2": &c.Beta2, "epsilon": &c.Epsilon,
		"weight_decay": &c.WeightDecay, "clip": &c.Clip,
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		value = strings.TrimSpace(value)
		switch {
		case key == "" || strings.HasPrefix(key, "#") || key == "dtype" || key == "device":
		case key == "data":
			corpus.Paths = append(corpus.Paths, value)
		case whole[key] != nil:
			*whole[key], err = strconv.Atoi(value)
		case decimal[key] != nil:
			*decimal[key], err = strconv.ParseFloat(value, 64)
		default:
			err = fmt.Errorf("%q: keys are data, %s", key,
				strings.Join(slices.Concat(slices.Sorted(maps.Keys(whole)), slices.Sorted(maps.Keys(decimal))), ", "))
		}
		if err != nil {
			return c, corpus, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return c, corpus, c.Validate()
}
