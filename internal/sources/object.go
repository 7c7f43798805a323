package sources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// parseJSON reads an object of settings. Errors name the line.
func parseJSON(text []byte) (map[string]value, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	fail := func(format string, args ...any) error {
		return fmt.Errorf("line %d: "+format, append([]any{lineAt(text, d.InputOffset())}, args...)...)
	}
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fail("not a JSON object: it begins with {, and every setting in it is a \"key\": value")
	}
	values := make(map[string]value)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fail("%w", plain(err))
		}
		key, _ := t.(string) // the decoder takes nothing else for a key
		line := lineAt(text, d.InputOffset())
		if _, twice := values[key]; twice {
			return nil, fail("%s is given twice", printable(key))
		}
		var decoded any
		if err := d.Decode(&decoded); err != nil {
			return nil, fail("%s: %w", printable(key), plain(err))
		}
		v := jsonValue(decoded)
		v.line = line
		values[key] = v
	}
	if _, err := d.Token(); err != nil {
		return nil, fail("%w", plain(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fail("something follows the object")
	}
	return values, nil
}

// plain says that a text broke off in plain words.
func plain(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the object has no end: } is missing")
	}
	return err
}

func jsonValue(v any) value {
	switch v := v.(type) {
	case nil:
		return value{null: true}
	case []any:
		return listOf(v, jsonElement)
	case string:
		return value{texts: []string{v}}
	case json.Number: // its digits, as they stand there
		return value{texts: []string{v.String()}}
	case bool:
		return value{texts: []string{strconv.FormatBool(v)}}
	}
	return value{fault: "settings are flat: an object within the object is none"}
}

func jsonElement(v any) value {
	if v == nil {
		return value{fault: "null in a list"}
	}
	return jsonValue(v)
}

// lineAt is the number of the line that holds the byte before offset.
func lineAt(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(max(offset, 0), int64(len(text)))], []byte{'\n'})
}
