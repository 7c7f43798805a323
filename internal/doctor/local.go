package doctor

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
)

// Machine is what the checks need to know of this machine. Methods return errors.ErrUnsupported
// where the system does not say.
type Machine interface {
	// Disk is the bytes that may still be written where dir is, or will be.
	Disk(dir string) (free uint64, err error)
	// Sync writes there. It returns how long a few bytes take until they are on the disk, and the
	// bytes a second of a large write.
	Sync(dir string) (small time.Duration, rate float64, err error)
	// Files is how many files, connections among them, this process may have open.
	Files() (uint64, error)
	// Buffers are the most bytes that a UDP socket may buffer.
	Buffers() (receive, send uint64, err error)
}

// Need is the space that a run's model takes. The zero value means that it is not known.
type Need struct {
	State   uint64 // bytes of anchor and optimizer state
	Outcome uint64 // bytes of a round's outcome, encoded
	Records uint64 // records that the run ends with
	Members int    // each of which a record lists
}

const (
	// At most this many checkpoints are on the disk: two are kept while one is written. The
	// outcomes of the rounds between them are there, too.
	checkpoints, outcomes = 3, 12
	unknownNeed           = 2 << 30
	recordBytes           = 330 // of each member, in a record that is kept for ever

	slowSync  = 100 * time.Millisecond
	slowWrite = 30e6 // bytes a second

	fewFiles, enoughFiles = 256, 4096
	quicBuffer            = 7 << 20 // what QUIC asks for
)

// bytes is how much must be free on the disk.
func (n Need) bytes() uint64 {
	if n.State == 0 {
		return unknownNeed
	}
	return checkpoints*n.State + outcomes*n.Outcome + n.Records*uint64(n.Members)*recordBytes
}

// Local runs the checks of this machine, with a peer's data in dir.
func Local(m Machine, dir string, need Need) []Finding {
	return []Finding{disk(m, dir, need), sync(m, dir, need), files(m), buffers(m)}
}

func disk(m Machine, dir string, need Need) Finding {
	free, err := m.Disk(dir)
	if err != nil {
		return unknown("disk", err, "choose another folder with --data-dir")
	}
	want, of := need.bytes(), "a run's checkpoints, by a guess"
	if need.State > 0 {
		of = fmt.Sprintf("%d checkpoints of this model, the rounds between and all records", checkpoints)
	}
	// a model that is not known may be a small one
	level := levelOf(free < want && need.State > 0, free < 2*want)
	what := fmt.Sprintf("%s free in %s; %s take %s", humanize.IBytes(free), dir, of, humanize.IBytes(want))
	return Found("disk", level, what, "free "+humanize.IBytes(2*want-min(free, 2*want))+" more, or put the peer's "+
		"data elsewhere with --data-dir; --keep-checkpoints 1 needs a third less")
}

func sync(m Machine, dir string, need Need) Finding {
	small, rate, err := m.Sync(dir)
	if err != nil {
		do := "make " + dir + " writable, or choose another folder with --data-dir"
		if errors.Is(err, syscall.ENOSPC) {
			do = "free some space there, or choose another folder with --data-dir"
		}
		return unknown("fsync", err, do)
	}
	what := fmt.Sprintf("a vote is on the disk after %s; large writes run at %s/s", short(small),
		humanize.IBytes(uint64(rate)))
	if need.Outcome > 0 && rate > 0 {
		what += fmt.Sprintf(", so a round's outcome takes %s", short(seconds(float64(need.Outcome)/rate)))
	}
	return Found("fsync", levelOf(false, small > slowSync || rate < slowWrite), what,
		"every slot waits for this disk: put --data-dir on a local SSD, not on a network share or a card")
}

func files(m Machine) Finding {
	limit, err := m.Files()
	if err != nil {
		return unknown("files", err, "")
	}
	return Found(
		"files",
		levelOf(limit < fewFiles, limit < enoughFiles),
		fmt.Sprintf("%d open files and connections allowed", limit),
		fmt.Sprintf("a peer of a large run has hundreds of connections: raise the limit with ulimit -n %d, or "+
			"LimitNOFILE=%[1]d in the systemd unit", 16*enoughFiles),
	)
}

func buffers(m Machine) Finding {
	receive, send, err := m.Buffers()
	if err != nil {
		return unknown("udp", err, "")
	}
	return Found(
		"udp",
		levelOf(false, min(receive, send) < quicBuffer),
		fmt.Sprintf(
			"UDP sockets may buffer %s in and %s out; QUIC asks for %s",
			humanize.IBytes(receive),
			humanize.IBytes(send),
			humanize.IBytes(quicBuffer),
		),
		fmt.Sprintf("QUIC loses packets on fast links: run sysctl -w net.core.rmem_max=%d "+
			"net.core.wmem_max=%[1]d, and add both settings to /etc/sysctl.d", quicBuffer),
	)
}

// unknown is the finding of a check that could not be done.
func unknown(check string, err error, do string) Finding {
	if errors.Is(err, errors.ErrUnsupported) {
		return Found(check, OK, "cannot be read on this system", "")
	}
	return Found(check, Fail, err.Error(), do)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// short is a duration with about three digits.
func short(d time.Duration) string {
	for digit := 10 * time.Second; digit > 10*time.Microsecond; digit /= 10 {
		if d.Abs() >= 100*digit {
			return d.Round(digit).String()
		}
	}
	return d.Round(10 * time.Microsecond).String()
}
