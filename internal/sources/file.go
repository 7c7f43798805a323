package sources

import (
	"bytes"
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

// ReadFile reads a config file: JSON if its name ends in .json, else TOML. Its own errors name the line and not the file; what it
// returns names both.
func ReadFile(path string) (Source, error) {
	f, err := os.Open(path)
	if err != nil {
		if e := (*os.PathError)(nil); errors.As(err, &e) {
			err = e.Err
		}
		return Source{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return Source{}, err
	}
	if len(text) > maxFile {
		return Source{}, fmt.Errorf("more than %d bytes: that is no config file", maxFile)
	}
	s := Source{
		closed: true, file: path,
		prefix: func(key string) string { return path + ": " + key + " = " },
		at:     func(line int) string { return fmt.Sprintf("%s, line %d: ", path, line) },
	}
	parse := parseTOML
	if strings.EqualFold(filepath.Ext(path), ".json") {
		parse = parseJSON
	}
	if s.values, err = parse(text); err != nil {
		return Source{}, err
	}
	return s, nil
}

// Object reads a JSON object that a program was given. what is what errors call it.
func Object(text []byte, what string) (Source, error) {
	values, err := parseJSON(text)
	if err != nil {
		return Source{}, fmt.Errorf("%s: %w", what, err)
	}
	return Source{
		closed: true,
		prefix: func(key string) string { return what + ": " + key + " = " },
		at:     func(int) string { return what + ": " },
		values: values,
	}, nil
}

// maxNesting bounds brackets in brackets and dots in a key, of which a flat file has two and none: the decoder calls itself for each bracket, and
// 32,000 dots took it 45 s.
const maxNesting = 100

func parseTOML(text []byte) (map[string]value, error) {
	if deep(text) {
		return nil, errors.New("tables or lists in each other, without end: a config file is flat, one setting a line")
	}
	var decoded map[string]any
	if _, err := toml.NewDecoder(bytes.NewReader(text)).Decode(&decoded); err != nil {
		return nil, err // with the line
	}
	values, line := make(map[string]value, len(decoded)), lines(text)
	for key, v := range decoded {
		one := tomlValue(v)
		one.line = max(1, line[key]) // odd ones are not found
		values[key] = one
	}
	return values, nil
}

// deep says whether more brackets are open somewhere, or more dots in what may be a key, than any config file needs. Those in texts count, too.
func deep(text []byte) bool {
	open, dots, comment := 0, 0, false
	for _, b := range text {
		if comment = b == '#' || comment && b != '\n'; comment {
			continue
		}
		switch b {
		case '[', '{':
			open++
			dots = 0
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

func tomlValue(v any) value {
	switch v := v.(type) {
	case []any:
		return listOf(v, tomlValue)
	case string:
		return value{texts: []string{v}}
	case int64:
		return value{texts: []string{strconv.FormatInt(v, 10)}}
	case bool:
		return value{texts: []string{strconv.FormatBool(v)}}
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if strings.Trim(text, "-0123456789") == "" {
			text += ".0" // no whole number, as it was not written as one
		}
		return value{texts: []string{text}, float: true}
	case map[string]any, []map[string]any:
		return value{fault: "a config file is flat: it has no tables"}
	}
	return value{fault: "allowed: a text in quotes, a whole number, true or false, or a list of these"}
}

// listOf is a list, if its elements are no lists themselves.
func listOf(elements []any, one func(any) value) value {
	all := value{list: true}
	for _, e := range elements {
		v := one(e)
		all.float = all.float || v.float
		if v.list {
			v.fault = "a list in a list"
		}
		if v.fault != "" {
			return v
		}
		all.texts = append(all.texts, v.texts...)
	}
	return all
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
