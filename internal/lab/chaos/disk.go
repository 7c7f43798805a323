package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

const filler = "filler" // takes the room

// mount moves the data of a peer without a process to a small disk in memory: one of the tiny model
// needs much less.
func (f *fault) mount() error {
	data := f.victims[0].Data
	if err := errors.Join(os.Rename(data, data+".large"), os.Mkdir(data, 0o700)); err != nil {
		return err
	}
	if err := run("mount", "-t", "tmpfs", "-o", "size=32m,mode=700", "p2pchaos", data); err != nil {
		return err
	}
	f.mounted = true
	return run("cp", "-a", data+".large/.", data)
}

// fill fills the disk with a folder.
func fill(dir string) error {
	file, err := os.Create(filepath.Join(dir, filler))
	if err != nil {
		return err
	}
	defer file.Close()
	for size := 1 << 20; size > 0; {
		switch _, err := file.Write(make([]byte, size)); {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil:
			return err
		}
	}
	return nil
}

// unmount gives a peer without a process room again, with what the full disk holds. It does nothing
// where there is no such disk.
func (f *fault) unmount() error {
	if !f.mounted {
		return nil
	}
	f.mounted = false
	data := f.victims[0].Data
	large := data + ".large"
	return errors.Join(os.RemoveAll(filepath.Join(data, filler)), os.RemoveAll(large), run("cp", "-a", data, large),
		run("umount", "-l", data), os.Remove(data), os.Rename(large, data))
}

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, out)
	}
	return nil
}
