package cgo

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func FuzzOneLine(f *testing.F) {
	f.Add("plain")
	f.Add("two\nlines \x1b[31mred\x00 \xff\xfe")
	f.Add(strings.Repeat("ä", maxReason))
	f.Fuzz(func(t *testing.T, s string) {
		got := oneLine(s)
		bad := func(r rune) bool { return !unicode.IsPrint(r) }
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > maxReason || strings.ContainsFunc(got, bad) {
			t.Errorf("%q became %q", s, got)
		}
		if again := oneLine(got); again != got {
			t.Errorf("%q became %q", got, again)
		}
	})
}

func TestOneLineKeepsWhatIsFit(t *testing.T) {
	for in, want := range map[string]string{
		"no such file: ./data.bin": "no such file: ./data.bin",
		" a\tb\r\n c ":             "a b c",
		"größer als 5 €":           "größer als 5 €",
		strings.Repeat("ä", 1000):  strings.Repeat("ä", maxReason),
	} {
		if got := oneLine(in); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
}
