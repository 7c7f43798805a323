package builtin

import (
	"fmt"
	"reflect"
	"strings"
)

// ParseConfig reads the text that bridge/trainers/cuda/train.cu is configured by: a key and a value
// a line, like "learning_rate 0.01", and the path of a text after "data". There 0 means none for
// weight_decay, clip and warm_up. Keys that both configurations lack are those of the other trainer
// alone.
func ParseConfig(text string) (c Config, corpus CorpusConfig, err error) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		value = strings.TrimSpace(value)
		if value == "0" && (key == "weight_decay" || key == "clip" || key == "warm_up") {
			value = "-1"
		}
		if key == "data" {
			corpus.Paths = []string{value}
			continue
		}
		for _, in := range []any{&c, &corpus} {
			field := reflect.ValueOf(in).Elem().FieldByNameFunc(func(name string) bool {
				return strings.EqualFold(name, strings.ReplaceAll(key, "_", ""))
			})
			if !field.IsValid() {
				continue
			}
			if _, err := fmt.Sscan(value, field.Addr().Interface()); err != nil {
				return c, corpus, fmt.Errorf("%s %q: %w", key, value, err)
			}
		}
	}
	return c, corpus, c.Validate()
}
