package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// maxObject bounds an embedding program's object, in bytes: some hundred thousand tensors.
const maxObject = 32 << 20

// object is what errors call it.
const object = "configuration"

// Embedded reads the settings of a program with its own training loop: a JSON object, then the
// environment (in os.Environ's form), then the file that "config" names. The object's keys are
// "layout" and the names of the flags with _ in place of -. Settings of a trainer are refused in
// the object; elsewhere they are for other peers. Errors are ErrInvalid.
func Embedded(text []byte, environ []string) (*Settings, error) {
	s := New()
	s.embedded = true
	s.flags = pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, d := range s.definitions() {
		if d.forLibrary() {
			d.register(s.flags)
		}
	}
	s.flags.String(sources.ConfigFlag, "", "")
	if len(text) > maxObject {
		return nil, Invalid(fmt.Errorf("%s: more than %d bytes", object, maxObject))
	}
	given, err := sources.Object(text, object)
	if err != nil {
		return nil, Invalid(err)
	}
	foreign := s.refuse(given)
	given.Drop("layout")
	err = errors.Join(foreign, s.readLayout(text), sources.Fill(s.flags, Known(), given, sources.Environment(environ)))
	s.Warnings = sources.Mistyped(environ, Known())
	if err != nil {
		return nil, Invalid(err)
	}
	return s, nil
}

// refuse finds the settings of an object that a library does not have.
func (s *Settings) refuse(given sources.Source) error {
	var errs []error
	for _, d := range s.definitions() {
		key := sources.Key(d.name)
		if d.forLibrary() || !given.Has(key) {
			continue
		}
		why := "`p2pdiloco join`: here is no trainer, your own loop trains"
		if d.use == ofProgram {
			why = "the program p2pdiloco alone"
		}
		errs = append(errs, fmt.Errorf("%s: %s is for %s: leave it out", object, key, why))
	}
	return errors.Join(errs...)
}

// readLayout takes the model's tensors from an object that parses.
func (s *Settings) readLayout(text []byte) error {
	var with struct {
		Layout json.RawMessage `json:"layout"`
	}
	if err := json.Unmarshal(text, &with); err != nil || len(with.Layout) == 0 || string(with.Layout) == "null" {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(with.Layout))
	d.DisallowUnknownFields()
	var layout p2pdiloco.Layout
	if err := d.Decode(&layout); err != nil {
		return fmt.Errorf(`%s: layout: %s: allowed: [{"name": "wte", "shape": [256, 96]}, …]`, object,
			strings.TrimPrefix(err.Error(), "json: "))
	}
	if err := layout.Validate(); err != nil {
		return fmt.Errorf("%s: %w", object, err)
	}
	s.Layout = layout
	return nil
}

// Logs says whether a log level was given. A peer in another program's process should log nothing
// otherwise.
func (s *Settings) Logs() bool { return sources.Rank(s.flags, "log-level") > 0 }
