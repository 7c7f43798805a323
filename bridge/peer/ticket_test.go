package peer

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

// A person who pastes a damaged ticket is told so, while the input stays open. Nothing was said
// until it was ended.
func TestADamagedTicketIsSaidAtOnce(t *testing.T) {
	in, paste := io.Pipe()
	told, tell := io.Pipe()
	ended := make(chan string, 1)
	go func() {
		text, _ := readLines(in, tell)
		ended <- text
	}()
	lines := bufio.NewReader(told)
	for _, c := range []struct{ paste, want string }{
		{"", "paste the ticket (p2pdiloco1…)"},
		{"p2pdiloco1aeajgbdemvww6\n", "not yet a ticket: "},
	} {
		if c.paste != "" {
			if _, err := io.WriteString(paste, c.paste); err != nil {
				t.Fatal(err)
			}
		}
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, c.want) {
			t.Errorf("%q: said %q, %v", c.paste, line, err)
		}
	}
	if err := paste.Close(); err != nil {
		t.Fatal(err)
	}
	if text := <-ended; text != "p2pdiloco1aeajgbdemvww6\n" {
		t.Errorf("read %q", text)
	}
}
