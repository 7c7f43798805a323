package natbench

import (
	"fmt"
	"os"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

// Marks in a document between which the tables stand.
const (
	markBegin = "<!-- nat: sudo p2plab bench nat --write docs/connectivity.md -->\n"
	markEnd   = "<!-- /nat -->\n"
)

// CheckFile says whether Write can put tables into the file at path.
func CheckFile(path string) error {
	_, _, err := around(path)
	return err
}

// Write puts the tables into the file at path, in place of those that stand there.
func (r Result) Write(path string) error {
	before, after, err := around(path)
	if err != nil {
		return err
	}
	if err := disk.Replace(disk.OS, path, []byte(before+markBegin+r.Markdown()+markEnd+after)); err != nil {
		return err
	}
	return os.Chmod(path, 0o644) // it is there to be read
}

// around is the text before and after the tables.
func around(path string) (before, after string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	before, rest, begun := strings.Cut(string(text), markBegin)
	_, after, ended := strings.Cut(rest, markEnd)
	if !begun || !ended {
		return "", "", fmt.Errorf("%s has no place for the tables: two lines, %q and %q", path,
			strings.TrimSpace(markBegin), strings.TrimSpace(markEnd))
	}
	return before, after, nil
}
