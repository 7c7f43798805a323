package p2pdiloco

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	ledger "github.com/p2pdiloco/p2pdiloco/membership/wire"
)

func allClaims() Claims {
	return Claims{
		Name: "rack-3 büro", Version: "v0.4.1", Loss: new(2.345), HeldOut: new(2.5), TokensPerSecond: new(12345.0),
		StalledShare: new(0.03), MemoryBytes: new(3e9), UpBytesPerSecond: new(0.0), DownBytesPerSecond: new(1.25e6),
	}
}

func TestClaimsComeBack(t *testing.T) {
	few := Claims{Name: "a", StalledShare: new(1.0)}
	for _, want := range []Claims{allClaims(), few, {}} {
		b := want.encode(nil)
		for _, b := range [][]byte{b, append(b, "what a later program adds"...)} {
			if got, err := parseClaims(b); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v came back as %+v, %v", want, got, err)
			}
		}
		for n := range b {
			if _, err := parseClaims(b[:n]); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("cut to %d bytes: %v", n, err)
			}
		}
	}
	later := allClaims().encode(nil)
	later[1] = 0xff // bits that this program does not know
	if got, err := parseClaims(append(later, 1, 2, 3, 4)); err != nil || !reflect.DeepEqual(got, allClaims()) {
		t.Errorf("with numbers of a later program: %+v, %v", got, err)
	}
}

// The longest claims find room in an ALIVE.
func TestClaimsAreBounded(t *testing.T) {
	c := allClaims()
	c.Name, c.Version = strings.Repeat("𐍈", 1000), strings.Repeat("𐍈", 1000)
	if n := len(c.encode(nil)); n > ledger.MaxClaims {
		t.Errorf("%d bytes", n)
	}
}

func TestGoldenClaims(t *testing.T) {
	text, err := json.Marshal(allClaims())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.Write(text)
	b.WriteByte('\n')
	for _, c := range allClaims().encode(nil) {
		b.WriteString(string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15]))
	}
	b.WriteByte('\n')
	testutil.Golden(t, "testdata/claims.txt", b.String())
}

// hostile are claims that a liar sends to terminals, pages and files of others.
func hostile() map[string][]byte {
	texts := func(name, version string) []byte {
		b := append([]byte{claimsFormat, 0, 0, byte(len(name))}, name...)
		return append(append(b, byte(len(version))), version...)
	}
	numbers := func(v float64) []byte {
		b := []byte{claimsFormat, 0, 0x7f, 0, 0}
		for range 7 {
			b = wire.AppendU32(b, math.Float32bits(float32(v)))
		}
		return b
	}
	return map[string][]byte{
		"markup":       texts("<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`),
		"a terminal":   texts("\x1b[2J\x1b]0;owned\a\r\n\t\b", "\x9b31m"),
		"a direction":  texts("\u202egnp.exe\u2066\u200f", "\ufeff\u200b\u3164\u115f"),
		"a shell":      texts("$(reboot)`reboot`;|&", "'; rm -rf ~; '"),
		"no UTF-8":     texts("\xff\xfe\xc0\xaf", "\xed\xa0\x80"),
		"lines":        texts("a\u2028b\u2029c\u0085d", "\v\f"),
		"what is long": texts(strings.Repeat("a", 255), strings.Repeat("\u0301", 127)),
		"no number":    numbers(math.NaN()), "more than all": numbers(math.Inf(1)), "less": numbers(math.Inf(-1)),
		"a long number": numbers(math.MaxFloat32), "a long one below 0": numbers(-math.MaxFloat32),
		"1 MB": bytes.Repeat([]byte{claimsFormat, 0xff}, 1<<19),
	}
}

// checkHarmless fails where claims of anybody may do more than be read.
func checkHarmless(t *testing.T, c Claims) {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatalf("no JSON: %v", err)
	}
	for most, shown := range map[int]string{maxName: c.Name, maxVersion: c.Version} {
		if utf8.RuneCountInString(shown) > most || !utf8.ValidString(shown) {
			t.Errorf("%q is too long, or no text", shown)
		}
		for _, r := range shown {
			if !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) || strings.ContainsRune("<>&\"'`\\$;|", r) {
				t.Errorf("%q has %U", shown, r)
			}
		}
	}
	if bytes.ContainsAny(text, "<>\x1b") {
		t.Errorf("the document has %q", text)
	}
}

func TestHostileClaimsAreHarmless(t *testing.T) {
	for name, b := range hostile() {
		t.Run(name, func(t *testing.T) {
			c, err := parseClaims(b)
			if err == nil {
				checkHarmless(t, c)
			}
			for _, n := range c.numbers() {
				if *n != nil && name != "1 MB" {
					t.Errorf("the number %v", **n)
				}
			}
		})
	}
	got, err := parseClaims(hostile()["markup"])
	if err != nil || got.Name != "?script?alert(1)?/script" {
		t.Errorf("markup is shown as %q, %v", got.Name, err)
	}
}

func FuzzParseClaims(f *testing.F) {
	f.Add(allClaims().encode(nil))
	f.Add(Claims{}.encode(nil))
	for _, b := range hostile() {
		f.Add(b[:min(len(b), ledger.MaxClaims)])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseClaims(b)
		if err != nil {
			return
		}
		checkHarmless(t, c)
		if again, err := parseClaims(c.encode(nil)); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%x is read as %+v, and that as %+v, %v", b, c, again, err)
		}
	})
}

func TestNamesOfOperatorsAndHosts(t *testing.T) {
	for name, fine := range map[string]bool{
		"": true, "rack-3": true, "Büro 2": true, "gpu_07.lab": true, "東京": true,
		" a": false, "a\n": false, "<b>": false, "it's": false, strings.Repeat("a", maxName+1): false,
	} {
		if err := CheckPeerName(name); (err == nil) != fine {
			t.Errorf("%q: %v", name, err)
		}
	}
	for host, want := range map[string]string{
		"node7.cluster.example": "node7", "localhost": "localhost", "": "",
		strings.Repeat("h", 60): strings.Repeat("h", maxName),
	} {
		if got := shortHostName(host); got != want {
			t.Errorf("%q is called %q", host, got)
		}
	}
}
