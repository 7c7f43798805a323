package wire

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// EntryBoot counts the openings of a store; it never leaves it.
type EntryBoot struct{ Count uint64 }

func (EntryBoot) isEntry() {}

// EntryRecord stands for an EntryCommit in the log: it says where the record is in the file of
// records. It never leaves the store.
type EntryRecord struct {
	Height uint64
	Kind   slot.Kind
	Hash   slot.Root
	Offset uint64
}

func (EntryRecord) isEntry() {}

// EntryPeak says that the log once had a record at a height above its chain's, or that the peer has
// files of such a height from a log before; it never leaves the store.
type EntryPeak struct{ Height uint64 }

func (EntryPeak) isEntry() {}

// Kinds of entries on disk. The enumeration only grows.
const (
	kindPromise = 1
	kindVote    = 2
	kindOffer   = 3
	kindFork    = 4
	kindCommit  = 5
	kindRewind  = 6
	kindBoot    = 7
	kindHave    = 8
	kindDecided = 9
	// 10 and 11 were entries that are gone
	kindPeak   = 12
	kindRecord = 13
)

// AppendEntry appends the canonical bytes of an entry.
func AppendEntry(b []byte, e Entry) []byte {
	switch e := e.(type) {
	case EntryPromise:
		return canonical.AppendBytes(append(b, kindPromise), e.Ref.Append(nil))
	case EntryVote:
		return canonical.AppendBytes(append(b, kindVote), e.Locked.append(e.Ref.Append(nil)))
	case EntryHave:
		return canonical.AppendBytes(append(b, kindHave), e.Drafted.append(e.Ref.Append(nil)))
	case EntryDecided:
		return canonical.AppendBytes(append(b, kindDecided), e.Certificate.Append(e.Record.Append(nil)))
	case EntryOffer:
		return canonical.AppendBytes(append(b, kindOffer), canonical.AppendU64(nil, e.Seq))
	case EntryFork:
		return canonical.AppendBytes(append(b, kindFork), e.Record.Append(e.Ref.Append(nil)))
	case EntryCommit:
		return canonical.AppendBytes(append(b, kindCommit), e.Certificate.Append(e.Record.Append(nil)))
	case EntryRewind:
		return canonical.AppendBytes(append(b, kindRewind), canonical.AppendU64(nil, e.Height))
	case EntryRecord:
		fields := AppendRoot(canonical.AppendU8(canonical.AppendU64(nil, e.Height), uint8(e.Kind)), e.Hash)
		return canonical.AppendBytes(append(b, kindRecord), canonical.AppendU64(fields, e.Offset))
	case EntryBoot:
		return canonical.AppendBytes(append(b, kindBoot), canonical.AppendU64(nil, e.Count))
	case EntryPeak:
		return canonical.AppendBytes(append(b, kindPeak), canonical.AppendU64(nil, e.Height))
	}
	panic(fmt.Sprintf("membership: entry %T has no encoding", e))
}

// ParseKept reads a record that was kept with its certificate. Errors wrap canonical.ErrMalformed.
func ParseKept(b []byte) (Commit, error) {
	r := canonical.NewReader(b)
	c := Commit{Record: slot.ReadRecord(r), Certificate: slot.ReadCertificate(r)}
	return c, r.Done()
}

// ParseEntries takes a frame's payload apart. Errors wrap canonical.ErrMalformed.
func ParseEntries(b []byte) ([]Entry, error) {
	var entries []Entry
	for r := canonical.NewReader(b); r.Len() > 0; {
		kind, fields := r.U8(), r.Bytes(len(b))
		if err := r.Err(); err != nil {
			return nil, err
		}
		e, err := parseEntry(kind, fields)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func parseEntry(kind uint8, b []byte) (Entry, error) {
	r := canonical.NewReader(b)
	var e Entry
	switch kind {
	case kindPromise:
		e = EntryPromise{slot.ReadRef(r)}
	case kindVote:
		e = EntryVote{slot.ReadRef(r), readLocked(r)}
	case kindHave:
		e = EntryHave{slot.ReadRef(r), readDrafted(r)}
	case kindDecided:
		e = EntryDecided{slot.ReadRecord(r), slot.ReadCertificate(r)}
	case kindOffer:
		e = EntryOffer{r.U64()}
	case kindFork:
		e = EntryFork{slot.ReadRef(r), slot.ReadRecord(r)}
	case kindCommit:
		e = EntryCommit{slot.ReadRecord(r), slot.ReadCertificate(r)}
	case kindRewind:
		e = EntryRewind{r.U64()}
	case kindRecord:
		e = EntryRecord{r.U64(), slot.Kind(r.U8()), ReadRoot(r), r.U64()}
	case kindBoot:
		e = EntryBoot{r.U64()}
	case kindPeak:
		e = EntryPeak{r.U64()}
	default:
		return nil, fmt.Errorf("%w: entry kind %d: a newer release wrote it", canonical.ErrMalformed, kind)
	}
	return e, r.Done()
}
