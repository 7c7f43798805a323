package builtin

import (
	"fmt"
	"reflect"
	"strings"
)

// ParseConfig reads the text that bridge/trainers/cuda/train.cu is configured by: a key and a value
// a line, like "learning_rate 0.01", and the path of a text after "data". Keys that Config lacks
// are those of the other trainer alone.
func ParseConfig(text string) (c Config, corpus CorpusConfig, err error) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		field := reflect.ValueOf(&c).Elem().FieldByNameFunc(func(name string) bool {
			return strings.EqualFold(name, strings.ReplaceAll(key, "_", ""))
		})
		if key == "data" {
			corpus.Paths = []string{strings.TrimSpace(value)}
		} else if field.IsValid() {
			if _, err := fmt.Sscan(value, field.Addr().Interface()); err != nil {
				return c, corpus, fmt.Errorf("%s %q: %w", key, value, err)
			}
		}
	}
	return c, corpus, c.Validate()
}
