package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func init() { testutil.OneCPU() }

func missedTexts(n int) []byte { return fmt.Appendf(nil, "(%d missing)\n", n) }

// An output that blocks holds nobody up. Once it is read again, everything is there in its order,
// and what did not fit is counted in the place where it is missing.
func TestNobodyWaitsForAnOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		read := make(chan struct{})
		b := NewOutbox(func(text []byte) error {
			<-read
			out.Write(text)
			return nil
		}, missedTexts)
		text := bytes.Repeat([]byte{'x'}, OutboxBytes/4-1)
		for i := range 7 { // three of them are left out
			text[0] = byte('0' + i)
			if n, err := b.Write(append(text, '\n')); n != OutboxBytes/4 || err != nil {
				t.Fatal(n, err)
			}
		}
		close(read)
		synctest.Wait()
		_, _ = b.Write([]byte("after\n"))
		if lost, err := b.Close(time.Second); lost != 3 || err != nil {
			t.Errorf("%d lost, %v", lost, err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			got = append(got, line[:min(len(line)-1, 10)])
		}
		want := "0xxxxxxxxx 1xxxxxxxxx 2xxxxxxxxx 3xxxxxxxxx (3 missing after"
		if strings.Join(got, " ") != want {
			t.Errorf("the output is %q", got)
		}
	})
}

// The end waits for what is still to be written, but not for ever.
func TestTheEndIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, wrote := make(chan struct{}), 0
		b := NewOutbox(func([]byte) error { <-read; wrote++; return nil }, missedTexts)
		for range 5 {
			_, _ = b.Write([]byte("text\n"))
		}
		began := time.Now()
		lost, err := b.Close(3 * time.Second)
		if took := time.Since(began); took != 3*time.Second || lost != 4 || !errors.Is(err, ErrBlocked) {
			t.Errorf("%v, %d lost, %v", took, lost, err)
		}
		close(read) // the one that blocked goes on
		synctest.Wait()
		if wrote != 1 {
			t.Errorf("%d texts after the end", wrote)
		}
		slow, took := 0, time.Now()
		b = NewOutbox(func([]byte) error { time.Sleep(time.Second); slow++; return errors.New("full") }, missedTexts)
		for range 2 {
			_, _ = b.Write([]byte("text\n"))
		}
		lost, err = b.Close(time.Minute)
		if lost != 0 || err == nil || slow != 2 || time.Since(took) != 2*time.Second {
			t.Errorf("%d lost, %v, %d written in %v", lost, err, slow, time.Since(took))
		}
		_, _ = b.Write([]byte("too late\n"))
	})
}
