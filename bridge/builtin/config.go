package builtin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Vocabulary is the number of tokens: the model reads and predicts bytes.
const Vocabulary = 256

// Caps on the model's sizes. They keep a mistyped number from taking the machine's memory.
const (
	maxLayers         = 64
	maxWidth          = 4096
	maxContext        = 4096
	maxBatch          = 4096
	maxThreads        = 256
	maxModelElements  = 1 << 28 // parameters: 1 GiB each for values, gradients and the two moments
	maxBufferElements = 1 << 30 // activations: 4 GiB
)

// The inner optimizers.
const (
	AdamW = "adamw" // arXiv 1711.05101
	Muon  = "muon"  // for the matrices of the blocks; AdamW for all else. See muon.go
)

// Config sizes the model and its training. The zero value is the default model. A field left 0
// takes its default; for WeightDecay, Clip and WarmUp a negative value means none. All peers of a
// run must use the same values: the layout follows from the sizes, and the initial parameters from
// Seed. The run's seed (Task.Seed) determines each peer's share of the data.
type Config struct {
	Layers  int // transformer blocks; default 1
	Width   int // d, elements of the residual stream; a multiple of Heads; default 96
	Heads   int // attention heads; default 4
	Context int // bytes the model sees at once; default 32
	Batch   int // sequences in one step; default 32

	Optimizer    string  // AdamW or Muon; default AdamW
	LearningRate float64 // of either, constant after the warm-up; default 8e-3
	Beta1        float64 // AdamW's decay of the first moment; default .9
	Beta2        float64 // AdamW's decay of the second moment; default .99
	Epsilon      float64 // added to the root of the second moment; default 1e-8
	WeightDecay  float64 // decoupled, on matrices only; default .1
	Clip         float64 // largest norm of a step's whole gradient; default 1
	WarmUp       int     // own steps over which the rate rises linearly; default 20

	HeldOut int // held-out sequences that Evaluate measures; default 128
	// of the initial parameters, which matter on the peer that founds the run; 0 is an ordinary
	// seed
	Seed    uint64
	Threads int // cores one step uses; default 1. It does not change the result
}

// WithDefaults is c with defaults for all fields that are 0.
func (c Config) WithDefaults() Config {
	c.Layers = cmp.Or(c.Layers, 1)
	c.Width = cmp.Or(c.Width, 96)
	c.Heads = cmp.Or(c.Heads, 4)
	c.Context = cmp.Or(c.Context, 32)
	c.Batch = cmp.Or(c.Batch, 32)
	c.Optimizer = cmp.Or(c.Optimizer, AdamW)
	c.LearningRate = cmp.Or(c.LearningRate, 8e-3)
	c.Beta1 = cmp.Or(c.Beta1, 0.9)
	c.Beta2 = cmp.Or(c.Beta2, 0.99)
	c.Epsilon = cmp.Or(c.Epsilon, 1e-8)
	c.WeightDecay = cmp.Or(c.WeightDecay, 0.1)
	c.Clip = cmp.Or(c.Clip, 1)
	c.WarmUp = cmp.Or(c.WarmUp, 20)
	c.HeldOut = cmp.Or(c.HeldOut, 128)
	c.Threads = cmp.Or(c.Threads, 1)
	return c
}

// Validate returns all faults of c, with defaults applied, in one joined error.
func (c Config) Validate() error {
	c = c.WithDefaults()
	errs := []error{
		between("layers", c.Layers, maxLayers),
		between("width", c.Width, maxWidth),
		between("heads", c.Heads, maxWidth),
		between("context", c.Context, maxContext),
		between("batch", c.Batch, maxBatch),
		between("held-out sequences", c.HeldOut, 1<<20),
		between("threads", c.Threads, maxThreads),
		fraction("beta1", c.Beta1),
		fraction("beta2", c.Beta2),
	}
	if c.Optimizer != AdamW && c.Optimizer != Muon {
		errs = append(errs, fmt.Errorf("optimizer %q: %s or %s is allowed", c.Optimizer, AdamW, Muon))
	}
	if !(c.LearningRate > 0 && c.LearningRate <= 1) {
		errs = append(errs, fmt.Errorf("learning rate %v: above 0 and at most 1 is allowed", c.LearningRate))
	}
	if !(c.Epsilon > 0 && c.Epsilon <= 1) {
		errs = append(errs, fmt.Errorf("epsilon %v: above 0 and at most 1 is allowed", c.Epsilon))
	}
	if !(c.WeightDecay*c.LearningRate < 1) || math.IsInf(c.WeightDecay, 0) {
		errs = append(errs, fmt.Errorf("weight decay %v: at most 1/(learning rate) is allowed, negative for none",
			c.WeightDecay))
	}
	if math.IsNaN(c.Clip) {
		errs = append(errs, errors.New("clip is not a number: give a norm above 0, or a negative one for no clipping"))
	}
	return errors.Join(append(errs, c.validateSizes(errs))...)
}

// validateSizes checks the sizes against each other. It reports nothing while a single size is
// wrong.
func (c Config) validateSizes(before []error) error {
	if errors.Join(before...) != nil {
		return nil
	}
	if c.Width%c.Heads != 0 {
		return fmt.Errorf("width %d is not a multiple of %d heads", c.Width, c.Heads)
	}
	s := c.shape()
	if n := s.layout().Elements(); n > maxModelElements {
		return fmt.Errorf("the model has %d parameters: at most %d are allowed, take fewer layers or a smaller width",
			n, maxModelElements)
	}
	if n := s.bufferElements(c.Batch); n > maxBufferElements {
		return fmt.Errorf("a step needs %d values of working memory: at most %d are allowed, take a smaller batch or "+
			"context", n, maxBufferElements)
	}
	return nil
}

// Parameters is D, the number of parameters of the model.
func (c Config) Parameters() uint64 { return c.WithDefaults().shape().layout().Elements() }

func (c Config) shape() shape {
	return shape{layers: c.Layers, width: c.Width, heads: c.Heads, context: c.Context, vocab: Vocabulary}
}

func between(what string, v, most int) error {
	if v < 1 || v > most {
		return fmt.Errorf("%s %d: 1 to %d is allowed", what, v, most)
	}
	return nil
}

func fraction(what string, v float64) error {
	if !(v >= 0 && v < 1) {
		return fmt.Errorf("%s %v: at least 0 and below 1 is allowed", what, v)
	}
	return nil
}

// ParseConfig reads the text that bridge/trainers/cuda/train.cu is configured by: a key and a value
// a line, like "learning_rate 0.01", and the path of a text after "data". The keys dtype and device
// are for the other trainer alone.
func ParseConfig(text string) (c Config, corpus CorpusConfig, err error) {
	known := []reflect.Value{reflect.ValueOf(&c).Elem(), reflect.ValueOf(&corpus).Elem()}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.Join(strings.Fields(line), " "), " ")
		field := reflect.Value{}
		for _, s := range known {
			if f := s.FieldByNameFunc(func(name string) bool {
				return strings.EqualFold(name, strings.ReplaceAll(key, "_", ""))
			}); f.IsValid() {
				field = f
			}
		}
		switch {
		case key == "data":
			corpus.Paths = []string{strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "data"))}
		case key == "optimizer":
			c.Optimizer = value
		case slices.Contains([]string{"", "dtype", "device"}, key) || strings.HasPrefix(key, "#"):
		case !field.IsValid() || !field.CanInt() && !field.CanFloat():
			return c, corpus, fmt.Errorf("builtin:gpt has no %q", key)
		case slices.Contains([]string{"clip", "warm_up", "weight_decay"}, key) && value == "0":
			value = "-1" // none
			fallthrough
		default:
			if err := json.Unmarshal([]byte(value), field.Addr().Interface()); err != nil {
				return c, corpus, fmt.Errorf("%s %q: %w", key, value, err)
			}
		}
	}
	return c, corpus, c.Validate()
}
