package testutil

import (
	"flag"
	"os"
	"testing"
)

// Update is the flag -update, with which tests write golden files and generated tables anew, in the
// place of holding what they make against them. All golden files at once:
//
//	go test ./spec ./internal/ticket ./membership/wire ./internal/kernel ./bridge/attach/wire -run Golden -update
var Update = flag.Bool("update", false, "write golden files and generated tables anew")

// Golden holds a text against the golden file at a path.
func Golden(t testing.TB, path, text string) {
	t.Helper()
	if *Update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != text {
		t.Errorf("%s has other bytes. What is made now:\n%s", path, text)
	}
}
