package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// platform is a system that wheels are made for.
type platform struct {
	goos, goarch string
	tags         []string // as pip knows it
}

// A Linux program without cgo needs no C library. manylinux2014 and manylinux_2_17 are one thing,
// under two names.
var platforms = []platform{
	{"linux", "amd64", []string{"manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64"}},
	{"linux", "arm64", []string{"manylinux_2_17_aarch64", "manylinux2014_aarch64", "musllinux_1_1_aarch64"}},
	{"darwin", "amd64", []string{"macosx_12_0_x86_64"}},
	{"darwin", "arm64", []string{"macosx_12_0_arm64"}},
}

// maxBytes is how large a wheel may be.
const maxBytes = 20_000_000

func (p platform) String() string { return p.goos + "/" + p.goarch }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "wheels:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	fs := flag.NewFlagSet("wheels", flag.ContinueOnError)
	out := fs.String("out", "dist", "folder for the wheels")
	only := fs.String("platforms", "", "which ones, as linux/amd64,darwin/arm64, or all (default this machine's)")
	repository := fs.String("repository", ".", "folder with the source")
	program := fs.String("program", "", "a node's program that is built already, for the one platform named")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%q is no flag: name the folder for the wheels with --out", fs.Arg(0))
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	if *program != "" && (*only == "" || len(chosen) != 1) {
		return errors.New("--program is for one platform: name it with --platforms")
	}
	for _, p := range chosen {
		path, err := make1(*repository, *out, *program, p)
		if err != nil {
			return fmt.Errorf("%v: %w", p, err)
		}
		fmt.Println(path)
	}
	return nil
}

// choose finds platforms by their names; an empty text is this machine's.
func choose(names string) (chosen []platform, err error) {
	if names == "all" {
		return platforms, nil
	}
	for name := range strings.SplitSeq(cmp.Or(names, runtime.GOOS+"/"+runtime.GOARCH), ",") {
		found := false
		for _, p := range platforms {
			if p.String() == name {
				chosen, found = append(chosen, p), true
			}
		}
		if !found {
			err = errors.Join(err, fmt.Errorf("no wheel is made for platform %q: there are %v", name, platforms))
		}
	}
	return chosen, err
}

// make1 packs a wheel, whose path it returns. It builds the program, if there is none.
func make1(repository, out, program string, p platform) (path string, err error) {
	if program == "" {
		dir, err := os.MkdirTemp("", "p2pdiloco-wheel-")
		if err != nil {
			return "", err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
		program = filepath.Join(dir, "p2pdiloco")
		if err := build(repository, program, p); err != nil {
			return "", err
		}
	}
	w, err := read(repository, program)
	if err != nil {
		return "", err
	}
	path = filepath.Join(out, w.fileName(p.tags))
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	if err := errors.Join(w.write(f, p.tags), f.Close()); err != nil {
		return "", err
	}
	return path, fits(path)
}

// fits refuses a wheel that is too large.
func fits(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if n := info.Size(); n > maxBytes {
		return fmt.Errorf("%s has %.1f MB, more than the %.0f that users are promised: link the program with "+
			"-ldflags '-s -w', or find what has made it larger", path, float64(n)/1e6, float64(maxBytes)/1e6)
	}
	return nil
}

// build builds the program without cgo.
func build(repository, program string, p platform) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", //nolint:noctx // Ctrl-C reaches it, too
		"-o", program, "./cmd/p2pdiloco")
	cmd.Dir, cmd.Stderr = repository, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.goos, "GOARCH="+p.goarch)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	return nil
}
