package settings

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// ticketValue is the value of the flag with a ticket. It holds the ticket itself, also where it was
// given as the name of a file or as standard input.
type ticketValue struct {
	text *string
	in   io.Reader // nil: none
}

// ticketOf is where the ticket goes. A program that embeds a peer needs its standard input itself.
func (s *Settings) ticketOf() *ticketValue {
	v := &ticketValue{text: &s.cfg.Ticket}
	if !s.embedded {
		v.in = os.Stdin
	}
	return v
}

// Set takes a ticket, @FILE, or - for standard input.
func (v *ticketValue) Set(given string) (err error) {
	*v.text, err = ReadTicket(given, v.in)
	return err
}

func (v *ticketValue) String() string {
	if v.text == nil { // pflag asks a zero value
		return ""
	}
	return *v.text
}

// Type is what help calls the value.
func (v *ticketValue) Type() string { return "string" }

// IsTicketPlace says whether a text names a place that holds a ticket: a file as @FILE, or standard
// input as -. Unlike arguments of a command, these can be kept from other users of the machine.
func IsTicketPlace(text string) bool { return text == "-" || strings.HasPrefix(text, "@") }

// ReadTicket is the ticket in the place that a text names. Any other text is returned as it is. in
// is the standard input; nil if there is none to read.
func ReadTicket(text string, in io.Reader) (string, error) {
	if !IsTicketPlace(text) {
		return text, nil
	}
	path, named := strings.CutPrefix(text, "@")
	place := path
	var found string
	var err error
	switch {
	case named:
		var b []byte
		b, err = disk.Read(disk.OS, path, ticket.MaxText)
		found = string(b)
	case in == nil:
		return "", errors.New("there is no standard input to read the ticket from: name a file, as @FILE")
	default:
		place = "standard input"
		found, err = readLines(in)
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
// the input.
func readLines(in io.Reader) (text string, err error) {
	for r := bufio.NewReader(io.LimitReader(in, ticket.MaxText)); ; {
		line, err := r.ReadString('\n')
		text += line
		if _, bad := ticket.Parse(text); bad == nil || errors.Is(err, io.EOF) {
			return text, nil
		}
		if err != nil {
			return "", err
		}
	}
}
