package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// smallData is a folder with enough text for the built-in model, and little enough to be read at
// once.
func smallData(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text := strings.Repeat("the quick brown fox jumps over the lazy dog, and the five boxing wizards jump quickly\n",
		400)
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// onLoopback are the flags that keep a test off every other network.
var onLoopback = []string{"--listen", "/ip4/127.0.0.1/tcp/0"}

// tiny are the flags of a peer that takes next to nothing of the processor: a model that is trained
// at once, and a rest after each round.
var tiny = []string{"--model", "layers=1,width=16,heads=2,context=8,batch=2", "--pause", "50ms"}
