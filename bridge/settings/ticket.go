package settings

import (
	"io"
	"os"

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
	*v.text, err = ticket.Given(given, v.in)
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
