package ticket

import (
	"bytes"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Prefix begins every ticket. The 1 is no letter of what follows.
const Prefix = "p2pdiloco1"

// These errors say what is wrong with a text.
var (
	ErrNoTicket = errors.New("this is no ticket: one begins with " + Prefix)
	ErrCutOff   = errors.New("the ticket is cut off: copy it whole, to its last character")
	ErrDamaged  = errors.New("the ticket is damaged, characters were changed, lost or added: copy it again")
)

const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// MaxText is the longest text that can be a ticket, with as much white space as a mail program may
// put in, in bytes.
const MaxText = 4 * maxBytes

// Encode returns the ticket as text, or an error that says what is wrong with it.
func (t Ticket) Encode() (string, error) {
	if err := t.Validate(); err != nil {
		return "", err
	}
	b := t.append(make([]byte, headSize, 512))
	size := len(b) + checkSize
	if size > maxBytes {
		return "", fmt.Errorf("ticket of %d bytes: %w (%d)", size, wire.ErrTooLarge, maxBytes)
	}
	b[0] = wire.Version
	binary.BigEndian.PutUint16(b[1:], uint16(size))
	return Prefix + encoding.EncodeToString(append(b, check(b)...)), nil
}

// check returns the checksum of a ticket's bytes.
func check(b []byte) []byte {
	h := slot.Hash(append([]byte("p2pdiloco/ticket"), b...))
	return h[:checkSize]
}

// Is says whether a text looks like a ticket, whole or not.
func Is(text string) bool {
	return len(text) <= MaxText && strings.HasPrefix(squeeze(text), Prefix)
}

// around lists the characters that people and programs put around a quoted text, and after it.
const around = "\"'`<>()[]“”‘’«»*_|.,;:"

// squeeze drops white space, invisible characters and characters around a text, and turns capitals
// into small letters.
func squeeze(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, text)
	return strings.Trim(text, around)
}

// Parse reads a ticket. Its errors say what to do, and do not repeat the text.
func Parse(text string) (Ticket, error) {
	if !Is(text) {
		return Ticket{}, ErrNoTicket
	}
	letters := strings.TrimPrefix(squeeze(text), Prefix)
	if strings.Trim(letters, alphabet) != "" {
		return Ticket{}, ErrDamaged
	}
	b, err := decode(letters)
	if err != nil {
		return Ticket{}, err
	}
	body, sum := b[:len(b)-checkSize], b[len(b)-checkSize:]
	if !bytes.Equal(check(body), sum) || encoding.EncodeToString(b) != letters {
		return Ticket{}, ErrDamaged
	}
	t, err := parse(body[headSize:])
	if err != nil {
		return Ticket{}, fmt.Errorf("the ticket is none that p2pdiloco makes: %w", err)
	}
	return t, nil
}

// decode returns the bytes of a text that has as many letters as its head says.
func decode(letters string) ([]byte, error) {
	whole := letters
	for broken := len(letters) % 8; broken == 1 || broken == 3 || broken == 6; broken = len(letters) % 8 {
		// no whole text ends like this: it is cut off, and its head says how long it was
		letters = letters[:len(letters)-1]
	}
	b, err := encoding.DecodeString(letters)
	if err != nil {
		return nil, ErrDamaged // only letters of the alphabet come here
	}
	if len(b) > 0 && b[0] != wire.Version {
		return nil, &wire.VersionError{What: "the ticket", Theirs: fmt.Sprint(b[0])}
	}
	if len(b) < headSize {
		return nil, ErrCutOff
	}
	size := int(binary.BigEndian.Uint16(b[1:]))
	switch {
	case size > maxBytes || size < headSize+checkSize || len(whole) > encoding.EncodedLen(size):
		return nil, ErrDamaged
	case len(b) < size:
		return nil, ErrCutOff
	}
	return b, nil
}
