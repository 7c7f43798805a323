package plugin

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// appendTensor writes a tensor as library.c does.
func appendTensor(b []byte, t trainer.Tensor, dtype uint32) []byte {
	b = native.AppendUint32(b, uint32(len(t.Name)))
	b = append(b, t.Name...)
	b = native.AppendUint32(b, dtype)
	b = native.AppendUint32(b, uint32(len(t.Shape)))
	for _, d := range t.Shape {
		b = native.AppendUint64(b, d)
	}
	return b
}

func FuzzLayout(f *testing.F) {
	good := native.AppendUint32(nil, 2)
	good = appendTensor(good, trainer.Tensor{Name: "w", Shape: []uint64{3, 4}}, 1)
	good = appendTensor(good, trainer.Tensor{Name: "b"}, 2)
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add(native.AppendUint32(nil, 1<<31))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, types, err := parseLayout(b)
		if err != nil {
			return
		}
		again := native.AppendUint32(nil, uint32(len(l)))
		for i, tensor := range l {
			for kind, name := range dtypes {
				if name == types[i] {
					again = appendTensor(again, tensor, kind)
				}
			}
		}
		if !bytes.HasPrefix(b, again) || l.Validate() != nil {
			t.Errorf("%x was read as %v %v", b, l, types)
		}
		last := l.Elements() - 1
		if name, _ := tensorAt(l, last); name != l[len(l)-1].Name {
			t.Errorf("element %d is in %q", last, name)
		}
	})
}

func FuzzReply(f *testing.F) {
	head := func(magic, number, code, size uint32) (b []byte) {
		for _, v := range []uint32{magic, number, code, size} {
			b = native.AppendUint32(b, v)
		}
		return b
	}
	f.Add(append(head(replyMagic, 3, 1, 4), "text"...))
	f.Add(head(replyMagic, 3, 1, maxPayload+1))
	f.Add(head(1, 3, 1, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := readReply(bytes.NewReader(b))
		if err == nil && !slices.Equal(append(head(replyMagic, r.number, uint32(r.code), uint32(len(r.payload))),
			r.payload...), b[:replyBytes+len(r.payload)]) {
			t.Errorf("%x was read as %+v", b, r)
		}
	})
}

func FuzzOneLine(f *testing.F) {
	f.Add("plain")
	f.Add("two\nlines \x1b[31mred\x00 \xff\xfe")
	f.Add(strings.Repeat("ä", maxReason))
	f.Fuzz(func(t *testing.T, s string) {
		got := oneLine(s)
		bad := func(r rune) bool { return !unicode.IsPrint(r) }
		if !utf8.ValidString(got) || len(got) > 3*maxReason+len("…") || strings.ContainsFunc(got, bad) {
			t.Errorf("%q became %q", s, got)
		}
		if again := oneLine(got); len(got) <= maxReason && again != got {
			t.Errorf("%q became %q", got, again)
		}
	})
}

func TestOneLineKeepsWhatIsFit(t *testing.T) {
	for in, want := range map[string]string{
		"no such file: ./data.bin":     "no such file: ./data.bin",
		" a\tb\r\n c ":                 "a b c",
		"größer als 5 €":               "größer als 5 €",
		strings.Repeat("ä", 1000):      strings.Repeat("ä", maxReason/2) + "…",
		"x" + strings.Repeat("ä", 999): "x" + strings.Repeat("ä", maxReason/2-1) + "…",
	} {
		if got := oneLine(in); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
}
