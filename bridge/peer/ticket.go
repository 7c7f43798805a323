package peer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// readTicket reads the value of the flag with a ticket.
func readTicket(given string) (string, error) { return ReadTicket(given, os.Stdin) }

// prompt is where a person who pastes a ticket is told what is awaited; nil if in is no terminal.
func prompt(in io.Reader) io.Writer {
	if file, ok := in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return os.Stderr
	}
	return nil
}

// IsTicketPlace says whether a text names a place that holds a ticket: a file as @FILE, or standard
// input as -. Unlike arguments of a command, these can be kept from other users of the machine.
func IsTicketPlace(text string) bool { return text == "-" || strings.HasPrefix(text, "@") }

// ReadTicket is the ticket in the place that a text names. Any other text is returned as it is. in
// is the standard input.
func ReadTicket(text string, in io.Reader) (string, error) {
	if !IsTicketPlace(text) {
		return text, nil
	}
	path, named := strings.CutPrefix(text, "@")
	place := path
	var found string
	var err error
	if named {
		var b []byte
		b, err = disk.Read(disk.OS, path, ticket.MaxText)
		found = string(b)
	} else {
		place = "standard input"
		found, err = readLines(in, prompt(in))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: there is no such file", place)
	}
	if err == nil && !ticket.Is(found) {
		err = ticket.ErrNoTicket
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", place, err)
	}
	return found, nil
}

// readLines reads until the lines so far are a ticket, so that nobody who pastes one has to end
// the input. Where tell is not nil, a person is told what is awaited, and after each line why it is
// no ticket.
func readLines(in io.Reader, tell io.Writer) (text string, err error) {
	say := func(format string, args ...any) {
		if tell != nil {
			fmt.Fprintf(tell, format+"\n", args...)
		}
	}
	say("paste the ticket (%s…), then press Enter", ticket.Prefix)
	for r := bufio.NewReader(io.LimitReader(in, ticket.MaxText)); ; {
		line, err := r.ReadString('\n')
		if ticket.Is(line) { // one that is pasted anew
			text = ""
		}
		text += line
		_, bad := ticket.Parse(text)
		if bad == nil || errors.Is(err, io.EOF) {
			return text, nil
		}
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(line) != "" {
			say("not yet a ticket: %v. If more lines belong to it, paste them; else copy it anew, or "+
				"save it to a file and give @FILE", bad)
		}
	}
}
