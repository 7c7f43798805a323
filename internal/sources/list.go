package sources

import (
	"strings"
	"unicode"
)

// List is the value of a flag that may be repeated. Its default is an empty list.
type List struct {
	values *[]string
	kind   string
	apart  func(rune) bool // what separates the elements in one text
}

// Addresses is a list whose elements hold no white space and no comma: both separate them in the environment. (The list separator of
// the system, a colon on Unix, is part of many multiaddrs.)
func Addresses(p *[]string) *List {
	return &List{p, "addresses", func(r rune) bool { return r == ',' || unicode.IsSpace(r) }}
}

// Peers is a list of peer IDs.
func Peers(p *[]string) *List {
	return &List{p, "peers", func(r rune) bool { return r == ',' || unicode.IsSpace(r) }}
}

// Paths is a list of files and folders, whose names may hold spaces: commas and line ends separate them in the environment.
func Paths(p *[]string) *List {
	return &List{p, "paths", func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }}
}

// Set adds one element, as it is.
func (l *List) Set(s string) error {
	*l.values = append(*l.values, s)
	return nil
}

// String is the elements, separated by commas.
func (l *List) String() string {
	if l.values == nil { // pflag asks a zero List
		return ""
	}
	return strings.Join(*l.values, ",")
}

// Type is what help calls the value.
func (l *List) Type() string { return l.kind }

// split is the elements of a list in one text: without white space around them, and without empty ones.
func (l *List) split(text string) (elements []string) {
	for part := range strings.FieldsFuncSeq(text, l.apart) {
		if part = strings.TrimSpace(part); part != "" {
			elements = append(elements, part)
		}
	}
	return elements
}
