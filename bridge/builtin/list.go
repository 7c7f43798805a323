package builtin

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

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
