package p2pdiloco

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// Claims is what a member says of itself, for people. Nothing stands behind it, and nothing is
// decided by it. What is not known is nil or empty.
type Claims struct {
	Name    string   `json:"name,omitempty"`          // that its operator chose
	Version string   `json:"version,omitempty"`       // of its program
	Loss    *float64 `json:"loss,omitempty"`          // mean over its newest round's inner steps
	HeldOut *float64 `json:"held_out_loss,omitempty"` // of the newest anchor that it measured
	// trained on in its newest slot, the time that the trainer stood still included
	TokensPerSecond *float64 `json:"tokens_per_second,omitempty"`
	// of the newest slot's time that the trainer stood still, from 0 to 1
	StalledShare *float64 `json:"stalled_share,omitempty"`
	MemoryBytes  *float64 `json:"memory_bytes,omitempty"` // of the node's process
	// sent and received for whatever, since it said so before
	UpBytesPerSecond   *float64 `json:"up_bytes_per_second,omitempty"`
	DownBytesPerSecond *float64 `json:"down_bytes_per_second,omitempty"`
}

// Bounds of the texts of claims, in characters.
const (
	maxName    = 24
	maxVersion = 16
)

// claimsFormat is the first byte of claims. A later program may add numbers with higher bits, and
// bytes at the end: both are ignored by this one.
const claimsFormat = 1

// mostClaimed bounds the numbers, in the order of their bits: a longer one would push what others
// say off a screen. The losses may be negative.
var mostClaimed = [...]float64{1e9, 1e9, 1e12, 1, 1e15, 1e15, 1e15}

// numbers lists the numbers in the order of their bits.
func (c *Claims) numbers() []**float64 {
	return []**float64{
		&c.Loss, &c.HeldOut, &c.TokensPerSecond, &c.StalledShare, &c.MemoryBytes, &c.UpBytesPerSecond,
		&c.DownBytesPerSecond,
	}
}

// encode appends the encoding:
//
//	format u8 | known u16: a bit for each number | name | version | the numbers that are known, float32
//
// A text has its length in bytes in front, u8.
func (c Claims) encode(b []byte) []byte {
	known, values := uint16(0), []byte(nil)
	for i, n := range c.numbers() {
		if *n != nil {
			known, values = known|1<<i, wire.AppendU32(values, math.Float32bits(float32(**n)))
		}
	}
	b = wire.AppendU16(wire.AppendU8(b, claimsFormat), known)
	for _, text := range []string{plain(c.Name, maxName), plain(c.Version, maxVersion)} {
		b = append(wire.AppendU8(b, uint8(len(text))), text...)
	}
	return append(b, values...)
}

// parseClaims reads what encode wrote. The texts are plain, whatever the bytes are; a number that
// no honest peer can have is not known.
func parseClaims(b []byte) (Claims, error) {
	var c Claims
	r := wire.NewReader(b)
	if format := r.U8(); r.Err() == nil && format != claimsFormat {
		return Claims{}, fmt.Errorf("claims in format %d: %w", format, wire.ErrMalformed)
	}
	known := r.U16()
	c.Name = plain(string(r.Take(int(r.U8()))), maxName)
	c.Version = plain(string(r.Take(int(r.U8()))), maxVersion)
	for i, n := range c.numbers() {
		if known>>i&1 == 1 {
			v := short(math.Float32frombits(r.U32()))
			if losses := 2; math.Abs(v) <= mostClaimed[i] && (v >= 0 || i < losses) {
				*n = &v
			}
		}
	}
	if r.Err() != nil {
		return Claims{}, fmt.Errorf("claims: %w", r.Err())
	}
	return c, nil
}

// claims says what was measured over a slot.
func (m SlotMetrics) claims() Claims {
	return Claims{
		Loss: m.Loss, HeldOut: m.HeldOut, TokensPerSecond: m.TokensPerSecond, StalledShare: m.StalledShare,
	}
}

// measure adds what the process takes, and what it sent and received since another moment.
func (c *Claims) measure(s, before Status) {
	c.MemoryBytes = finite(float64(s.Process.HeapBytes + s.Process.SharedBytes))
	if took := (s.Uptime - before.Uptime).Seconds(); took > 0 {
		c.UpBytesPerSecond = finite(float64(s.Sent-before.Sent) / took)
		c.DownBytesPerSecond = finite(float64(s.Received-before.Received) / took)
	}
}

// short is the float64 with the fewest digits that is this float32.
func short(v float32) float64 {
	n, err := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
	if err != nil { // NaN is read, too
		return math.NaN()
	}
	return n
}

// nameMarks are the characters of a name beside letters, digits and spaces. Markup, quotes and what
// a shell or a terminal reads as more than itself are not among them.
const nameMarks = "-_.:+/@()#"

// plain returns at most so many characters of a text. In the place of those that a name may not
// have, such as control characters, those that change the direction of writing, and markup, it has
// a question mark.
func plain(text string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range strings.TrimSpace(text) {
		if n++; n > most {
			break
		}
		shows := unicode.IsLetter(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
		if !shows && !unicode.IsDigit(r) && r != ' ' && !strings.ContainsRune(nameMarks, r) {
			r = '?'
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

// CheckPeerName says what is wrong with a name that an operator chose, or nothing.
func CheckPeerName(name string) error {
	if plain(name, maxName) != name {
		return fmt.Errorf("allowed: at most %d letters, digits, spaces and %s", maxName, nameMarks)
	}
	return nil
}

// shortHostName is the name that goes by default: the machine's, without its domain.
func shortHostName(host string) string {
	first, _, _ := strings.Cut(host, ".")
	return plain(first, maxName)
}

// Cost is what slots take at one peer of time and of bytes, beside what data-parallel training
// takes, which exchanges all gradients at each step.
type Cost struct {
	Slots    uint64        // applied
	Steps    uint64        // inner steps of this peer in them
	Training time.Duration // in inner steps
	Sync     time.Duration // that the trainer stood still meanwhile
	Share    float64       // of Sync in both, from 0 to 1
	Sent     uint64        // bytes, for whatever
	Parallel uint64        // bytes that each of as many peers sends in data-parallel training
	Left     time.Duration // to the last slot, if all are like these; 0: unknown
}

// CostSince returns what was spent since another moment of the peer; the zero Status is its start.
func (s Status) CostSince(before Status) Cost {
	c := Cost{
		Slots:    s.Stats.Applied - before.Stats.Applied,
		Training: s.Training - before.Training, Sync: s.Stall - before.Stall, Sent: s.Sent - before.Sent,
	}
	run := spec.FromFields(s.Spec)
	c.Steps = (s.Stats.Contributions - before.Stats.Contributions) * run.InnerSteps / max(run.Fragments, 1)
	took := c.Training + c.Sync
	if took > 0 {
		c.Share = c.Sync.Seconds() / took.Seconds()
	} else { // a peer without a trainer
		took = s.Uptime - before.Uptime
	}
	if n := uint64(s.Contributors); n > 1 { // a ring: each sends all but its own part, twice
		c.Parallel = c.Steps * 4 * s.Parameters * 2 * (n - 1) / n
	}
	if c.Slots > 0 && s.LastSlot > s.Slot {
		c.Left = took * time.Duration(s.LastSlot-s.Slot) / time.Duration(c.Slots)
	}
	return c
}
