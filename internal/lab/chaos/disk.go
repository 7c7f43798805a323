package chaos

import (
	"errors"
	"fmt"
	"os/exec"
)

// disks are scripts about the data of a peer, $0. It moves to a small disk in memory, of which the
// tiny model needs much less, while it has no process, and back with what that disk holds.
var disks = map[string]string{
	"mount": `cp -a "$0" "$0.large" && mount -t tmpfs -o size=32m,mode=700 p2pchaos "$0" && cp -a "$0.large/." "$0"`,
	"fill":  `! head -c 64M /dev/zero >"$0/filler"`, // which must fail
	"unmount": `mountpoint -q "$0" || exit 0; rm -rf "$0/filler" "$0.large"
		cp -a "$0" "$0.large" && umount -l "$0" && rm -rf "$0" && mv "$0.large" "$0"`,
}

// disk carries out a word about a disk. Where there is no disk of its own, unmount does nothing.
func (f *fault) disk(word string) (err error) {
	for _, p := range f.victims {
		if out, failed := exec.Command("sh", "-c", disks[word], p.Data).CombinedOutput(); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s %s: %w: %s", word, p.Data, failed, out))
		}
	}
	return err
}
