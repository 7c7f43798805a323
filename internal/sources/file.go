package sources

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"

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
