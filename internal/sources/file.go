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
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

// maxFile bounds a config file, in bytes: hundreds of bootstrap addresses.
const maxFile = 64 << 10

// read reads a whole file of at most so many bytes. Its errors do not name the file.
func read(path string, most int64) ([]byte, error) {
	text, err := disk.Read(disk.OS, path, most)
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err
	} else if err != nil {
		err = fmt.Errorf("%w: that is no config file", err)
	}
	return text, err
}

// ReadTOML reads a flat TOML file of at most so many bytes, and returns its values in the order of
// their lines. Its errors name the line and not the file.
func ReadTOML(path string, most int64) ([]Entry, error) {
	text, err := read(path, most)
	if err != nil {
		return nil, err
	}
	values, err := parseTOML(text)
	return inOrder(values), err
}

// parse reads a config file whose name ends in .json, or else is TOML.
func parse(path string, text []byte) (map[string]Entry, error) {
	if strings.EqualFold(filepath.Ext(path), ".json") {
		return parseJSON(text)
	}
	return parseTOML(text)
}

// parseTOML reads a flat TOML file. Errors name the line.
func parseTOML(text []byte) (map[string]Entry, error) {
	if deep(text) {
		return nil, errors.New("tables or lists in each other, without end: a config file is flat, one setting a line")
	}
	var decoded map[string]any
	if err := toml.Unmarshal(text, &decoded); err != nil {
		return nil, err
	}
	values, line := make(map[string]Entry, len(decoded)), lines(text)
	for key, v := range decoded {
		values[key] = Entry{key, max(1, line[key]), v} // odd keys are not found
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

// parseJSON reads an object of settings. Errors name the line.
func parseJSON(text []byte) (map[string]Entry, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	line := func() int { return 1 + bytes.Count(text[:d.InputOffset()], []byte{'\n'}) }
	values := make(map[string]Entry)
	if err := readObject(d, line, values); err != nil {
		return nil, fmt.Errorf("line %d: %w", line(), err)
	}
	return values, nil
}

func readObject(d *json.Decoder, line func() int, values map[string]Entry) error {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("not a JSON object: it begins with {, and every setting in it is a \"key\": value")
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return unended(err)
		}
		key, _ := t.(string) // the decoder takes nothing else for a key
		at := line()
		if _, twice := values[key]; twice {
			return fmt.Errorf("%s is given twice", printable(key))
		}
		var decoded any
		if err := d.Decode(&decoded); err != nil {
			return fmt.Errorf("%s: %w", printable(key), unended(err))
		}
		values[key] = Entry{key, at, decoded}
	}
	if _, err := d.Token(); err != nil {
		return unended(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}

func unended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the object has no end: } is missing")
	}
	return err
}
