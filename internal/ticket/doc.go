// Package ticket is an invitation to a run as one line of text, which one peer makes and another
// joins with: it names the run, a record of its chain that can be trusted, and where some of its
// peers are.
//
//	text, err := ticket.Ticket{Run: "books", RunID: id, Pin: tip, Addrs: addrs}.Encode()
//	t, err := ticket.Parse(text)
//
// The text is Prefix and base32 in small letters: it can be read out over the phone, capitals and
// line breaks do no harm, and a text that lost its tail can be distinguished from one that was
// changed. docs/spec/run.md has the layout. The package is pure: it knows no clock and
// no network.
package ticket
