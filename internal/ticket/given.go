package ticket

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

// From says whether a text names a place that holds a ticket: a file as @FILE, or standard input
// as -. Unlike arguments of a command, these can be kept from other users of the machine.
func From(text string) bool { return text == "-" || strings.HasPrefix(text, "@") }

// Given is the ticket that a text holds, or that is in the place that it names. in is the standard
// input; nil if there is none to read. What is not From a place is returned as it is.
func Given(text string, in io.Reader) (string, error) {
	if !From(text) {
		return text, nil
	}
	path, named := strings.CutPrefix(text, "@")
	place := path
	var found string
	var err error
	switch {
	case named:
		var b []byte
		b, err = disk.Read(disk.OS, path, maxText)
		found = string(b)
	case in == nil:
		return "", errors.New("there is no standard input to read the ticket from: name a file, as @FILE")
	default:
		place = "standard input"
		found, err = readLines(in)
	}
	if err == nil && !Is(found) {
		err = ErrNoTicket
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", place, err)
	}
	return found, nil
}

// readLines reads until the lines so far are a ticket, so that nobody who pastes one has to end
// the input.
func readLines(in io.Reader) (text string, err error) {
	for r := bufio.NewReader(io.LimitReader(in, maxText)); ; {
		line, err := r.ReadString('\n')
		text += line
		if _, bad := Parse(text); bad == nil || errors.Is(err, io.EOF) {
			return text, nil
		}
		if err != nil {
			return "", err
		}
	}
}
