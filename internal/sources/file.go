package sources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// maxFile bounds a config file, in bytes: hundreds of bootstrap addresses.
const maxFile = 64 << 10

// ReadFile reads a config file: JSON if its name ends in .json, else TOML. Its own errors name the
// line and not the file; what it returns names both.
func ReadFile(path string) (Source, error) {
	text, err := read(path, maxFile)
	if err != nil {
		return Source{}, err
	}
	parse := parseTOML
	if strings.EqualFold(filepath.Ext(path), ".json") {
		parse = parseJSON
	}
	values, err := parse(text)
	return Source{
		closed: true, isFile: true, values: values,
		prefix: func(key string) string { return path + ": " + key + " = " },
		at:     func(line int) string { return fmt.Sprintf("%s, line %d: ", path, line) },
	}, err
}

// read reads a whole file of at most so many bytes. Its errors do not name the file.
func read(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if e := (*os.PathError)(nil); errors.As(err, &e) {
		err = e.Err
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("more than %d bytes: that is no config file", most)
	}
	return text, err
}

// ReadTOML reads a flat TOML file of at most so many bytes, and returns its values in the order of
// their lines. Its errors name the line and not the file.
func ReadTOML(path string, most int64) ([]Value, error) {
	text, err := read(path, most)
	if err != nil {
		return nil, err
	}
	values, err := parseTOML(text)
	return inOrder(values), err
}

// Object reads a JSON object that a program was given. what is what errors call it.
func Object(text []byte, what string) (Source, error) {
	values, err := parseJSON(text)
	if err != nil {
		return Source{}, fmt.Errorf("%s: %w", what, err)
	}
	return Source{
		closed: true, values: values,
		prefix: func(key string) string { return what + ": " + key + " = " },
		at:     func(int) string { return what + ": " },
	}, nil
}

// parseTOML reads a flat TOML file. Errors name the line.
func parseTOML(text []byte) (map[string]Value, error) {
	if deep(text) {
		return nil, errors.New("tables or lists in each other, without end: a config file is flat, one setting a line")
	}
	var decoded map[string]any
	if err := toml.Unmarshal(text, &decoded); err != nil {
		return nil, err
	}
	values, line := make(map[string]Value, len(decoded)), lines(text)
	for key, v := range decoded {
		values[key] = valueOf(v).stands(key, max(1, line[key])) // odd keys are not found
	}
	return values, nil
}

// maxNesting bounds brackets in brackets and dots in a key, of which a flat file has two and none:
// the decoder calls itself for each bracket, and 32,000 dots took it 45 s.
const maxNesting = 100

// deep says whether more brackets are open somewhere, or more dots in what may be a key, than any
// config file needs. Those in texts count, too.
func deep(text []byte) bool {
	open, dots, comment := 0, 0, false
	for _, b := range text {
		if comment = b == '#' || comment && b != '\n'; comment {
			continue
		}
		switch b {
		case '[', '{':
			open, dots = open+1, 0
		case ']', '}':
			open = max(0, open-1)
		case '=', ',', '\n':
			dots = 0
		case '.':
			dots++
		}
		if open > maxNesting || dots > maxNesting {
			return true
		}
	}
	return false
}

// opening is a key where a line sets it or opens a table of that name.
var opening = regexp.MustCompile(`(?m)^[ \t\[]*["']?([^\s"'.=\[\]]+)["']?[ \t]*[.=\]]`)

// lines are the numbers of the first lines that set keys; the decoder does not tell.
func lines(text []byte) map[string]int {
	found, number, from := make(map[string]int), 1, 0
	for _, m := range opening.FindAllSubmatchIndex(text, -1) {
		number += bytes.Count(text[from:m[2]], []byte{'\n'})
		from = m[2]
		if key := string(text[m[2]:m[3]]); found[key] == 0 {
			found[key] = number
		}
	}
	return found
}

// lineAt is the number of the line that holds the byte before offset.
func lineAt(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(max(offset, 0), int64(len(text)))], []byte{'\n'})
}

// parseJSON reads an object of settings. Errors name the line.
func parseJSON(text []byte) (map[string]Value, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	fail := func(format string, args ...any) error {
		for i, a := range args {
			if err, ok := a.(error); ok && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
				args[i] = errors.New("the object has no end: } is missing")
			}
		}
		return fmt.Errorf("line %d: "+format, append([]any{lineAt(text, d.InputOffset())}, args...)...)
	}
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fail("not a JSON object: it begins with {, and every setting in it is a \"key\": value")
	}
	values := make(map[string]Value)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fail("%w", err)
		}
		key, _ := t.(string) // the decoder takes nothing else for a key
		line := lineAt(text, d.InputOffset())
		if _, twice := values[key]; twice {
			return nil, fail("%s is given twice", printable(key))
		}
		var decoded any
		if err := d.Decode(&decoded); err != nil {
			return nil, fail("%s: %w", printable(key), err)
		}
		values[key] = valueOf(decoded).stands(key, line)
	}
	if _, err := d.Token(); err != nil {
		return nil, fail("%w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fail("something follows the object")
	}
	return values, nil
}

func (v Value) stands(key string, line int) Value {
	v.Key, v.Line = key, line
	return v
}

// valueOf is what a decoder made of a value, as a setting.
func valueOf(decoded any) Value {
	switch v := decoded.(type) {
	case nil:
		return Value{null: true}
	case string:
		return Value{Texts: []string{v}, Kind: Text}
	case json.Number: // its digits, as they stand there
		return Value{Texts: []string{v.String()}}
	case int64:
		return Value{Texts: []string{strconv.FormatInt(v, 10)}, Kind: Whole}
	case bool:
		return Value{Texts: []string{strconv.FormatBool(v)}}
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if strings.Trim(text, "-0123456789") == "" {
			text += ".0" // no whole number, as it was not written as one
		}
		return Value{Texts: []string{text}, Kind: Decimal}
	case []any:
		return listOf(v)
	case map[string]any, []map[string]any:
		return Value{Fault: "settings are flat: it cannot be a table or an object"}
	}
	return Value{Fault: "allowed: a text in quotes, a whole number, true or false, or a list of these"}
}

// listOf is a list, if its elements are no lists themselves.
func listOf(elements []any) Value {
	all := Value{List: true}
	for i, e := range elements {
		v := valueOf(e)
		switch {
		case v.Fault != "":
		case v.null:
			v.Fault = "null in a list"
		case v.List:
			v.Fault = "a list in a list"
		}
		if v.Fault != "" {
			return v
		}
		if i == 0 || all.Kind == v.Kind || v.Kind == Decimal {
			all.Kind = v.Kind
		} else if all.Kind != Decimal {
			all.Kind = 0
		}
		all.Texts = append(all.Texts, v.Texts...)
	}
	return all
}
