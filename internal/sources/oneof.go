package sources

import (
	"errors"
	"slices"
	"strings"
)

// OneOf is the value of a flag with few allowed ones.
type OneOf struct {
	Value   string
	Allowed []string
	Kind    string // what help calls it
}

// Set takes one of Allowed; String and Type make it a flag.
func (o *OneOf) Set(s string) error {
	if !slices.Contains(o.Allowed, s) {
		return errors.New("allowed: " + strings.Join(o.Allowed, ", "))
	}
	o.Value = s
	return nil
}

func (o *OneOf) String() string { return o.Value }

// Type is what help calls the value.
func (o *OneOf) Type() string { return o.Kind }
