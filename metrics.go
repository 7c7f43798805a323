package p2pdiloco

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/p2pdiloco/p2pdiloco/allreduce/figures"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// Times between two claims of a peer: one that trains, and one that does not.
const (
	claimsEvery     = 10 * time.Second
	idleClaimsEvery = time.Minute
)

// SlotMetrics is what this node has measured, slot by slot and oldest first, as its data directory
// keeps it: the newest slots whole, and of older ones fewer. A slot may be there twice, where the
// run has changed its branch; the later one holds.
func (n *Node) SlotMetrics() ([]SlotMetrics, error) {
	return eventlog.ReadHistory[SlotMetrics](n.dir.Path(datadir.MetricsFile))
}

// teller says how the training goes: to the metrics file, and to the other members.
type teller struct {
	*Node
	history *eventlog.History
	failed  bool        // the newest line is missing in the file
	slot    Status      // when the newest slot was applied
	newest  SlotMetrics // of that slot
	claimed Status      // when claims were made last
	member  bool        // this peer was a member then
}

// tellMetrics tells, until the node closes.
func (n *Node) tellMetrics() {
	t := teller{Node: n, history: eventlog.NewHistory(n.hooks.Disk, n.dir.Path(datadir.MetricsFile))}
	defer t.history.Close() //nolint:errcheck // what is in it is written
	t.slot.Slot = n.driver.View().AppliedSlot
	for !n.life.Over() {
		ctx, stop := context.WithTimeout(n.life.Context(), claimsEvery)
		v, err := n.driver.WaitView(ctx, t.concerns)
		late := ctx.Err() != nil
		stop()
		switch {
		case err != nil && !late:
			return // the ledger has ended
		case err != nil:
			v = n.driver.View()
		}
		t.look(v)
	}
	t.end()
}

// end tells the loss of the last slot's model once more with that slot: it was measured later.
func (t *teller) end() {
	s := t.Status()
	m := t.newest
	if m.Slot == 0 || s.Slot != m.Slot || s.Stats.Loss == nil || s.Stats.LossSlot == m.HeldOutSlot && m.HeldOut != nil {
		return
	}
	m.HeldOut, m.HeldOutSlot = s.Stats.Loss, s.Stats.LossSlot
	if err := t.history.Add(m); err != nil {
		t.cfg.Logger.Warn("the last slot's loss is missing in this peer's metrics", "err", err)
	}
}

// concerns says whether there is something to tell of a view.
func (t *teller) concerns(v membership.View) bool {
	return v.AppliedSlot != t.slot.Slot || v.IsMember && !t.member
}

func (t *teller) look(v membership.View) {
	s := t.Status()
	if s.Slot != t.slot.Slot {
		t.newest = s.slotMetricsSince(t.slot, v.Tip.Work, time.Now())
		t.slot = s
		err := t.history.Add(t.newest)
		if err != nil && !t.failed {
			t.cfg.Logger.Warn("slots are missing in this peer's metrics", "err", err)
		}
		t.failed = err != nil
	}
	if v.IsMember && !t.member || t.due(s) {
		t.claim(s)
	}
	t.member = v.IsMember
}

// due says whether it is time for claims. A peer that trains, or that members have come to, waits
// less.
func (t *teller) due(s Status) bool {
	since, soon := s.Uptime-t.claimed.Uptime, len(s.Members) != len(t.claimed.Members)
	for _, m := range s.Members {
		soon = soon || m.Self && s.Phase == PhaseRunning && m.State != "idle" && m.State != "voting"
	}
	return since >= idleClaimsEvery || soon && since >= claimsEvery
}

// claim has the next ALIVE say how this peer's training goes.
func (t *teller) claim(s Status) {
	c := t.newest.claims()
	host, _ := os.Hostname()
	c.Name, c.Version = cmp.Or(t.cfg.PeerName, shortHostName(host)), programVersion()
	c.measure(s, t.claimed)
	t.claims.Store(&c)
	t.driver.Report(membership.ReportClaims(c.encode(nil)))
	t.claimed = s
}

const modulePath = "github.com/p2pdiloco/p2pdiloco"

// stamped is a version that the toolchain made of a commit: its time and its hash.
var stamped = regexp.MustCompile(`^v.*[-.]\d{14}-([0-9a-f]{12})(\+.*)?$`)

// programVersion is the version of this library in the program.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ProtocolVersion
	}
	version := info.Main.Version
	for _, d := range info.Deps {
		if d.Path == modulePath {
			version = d.Version
		}
	}
	return shortVersion(version)
}

// shortVersion is a version as claims have it: of a commit its hash.
func shortVersion(version string) string {
	if m := stamped.FindStringSubmatch(version); m != nil {
		return m[1]
	}
	if version == "" || version == "(devel)" {
		return ProtocolVersion
	}
	return version
}

// SlotMetrics is what a peer measured from one applied slot to the next: a line of its metrics
// file. What is not known is nil.
type SlotMetrics struct {
	Time      time.Time `json:"time"` // when the slot was applied here
	Slot      uint64    `json:"slot"`
	Height    uint64    `json:"height"` // of the newest record
	StateRoot Root      `json:"state_root"`

	Loss        *float64 `json:"loss,omitempty"`          // training, mean over the newest round
	HeldOut     *float64 `json:"held_out_loss,omitempty"` // the newest measured
	HeldOutSlot uint64   `json:"held_out_slot,omitempty"` // of the anchor that it was measured on

	// or samples: behind this peer's contributions since the line before, behind all contributions
	// to this slot, and, up to the caps on weights, behind all of the run
	Tokens          uint64   `json:"tokens"`
	SlotTokens      uint64   `json:"slot_tokens"`
	RunTokens       uint64   `json:"run_tokens"`
	TokensPerSecond *float64 `json:"tokens_per_second,omitempty"` // of Tokens in Seconds

	Members      int `json:"members"`
	Contributors int `json:"contributors"`

	// Since the line before, or the start of the process. Training is the time in inner steps,
	// stalled the time that the trainer stood still and waited for others.
	Seconds         float64  `json:"seconds"`
	TrainingSeconds float64  `json:"training_seconds"`
	StalledSeconds  float64  `json:"stalled_seconds"`
	StalledShare    *float64 `json:"stalled_share,omitempty"` // of both
	StepSeconds     *float64 `json:"step_seconds,omitempty"`  // of one inner step, the newest known
	BytesSent       uint64   `json:"bytes_sent"`
	BytesReceived   uint64   `json:"bytes_received"`

	Norm    float64  `json:"norm"`               // of the outcome
	OwnNorm *float64 `json:"own_norm,omitempty"` // of this peer's pseudo-gradient
	Cosine  *float64 `json:"cosine,omitempty"`   // of the angle between the two
}

// slotMetricsSince puts together what was measured since another moment of the peer; the zero
// Status is its start. work is that of the newest record.
func (s Status) slotMetricsSince(before Status, work uint64, now time.Time) SlotMetrics {
	m := SlotMetrics{
		Time: now.UTC(), Slot: s.Slot, Height: s.Height, StateRoot: s.StateRoot,
		Loss: s.Stats.TrainLoss, HeldOut: s.Stats.Loss, HeldOutSlot: s.Stats.LossSlot,
		Tokens: s.Stats.Tokens - before.Stats.Tokens, SlotTokens: s.Stats.Weight, RunTokens: work,
		Members: len(s.Members), Contributors: s.Stats.Contributors,
		Seconds:         (s.Uptime - before.Uptime).Seconds(),
		TrainingSeconds: (s.Training - before.Training).Seconds(), StalledSeconds: (s.Stall - before.Stall).Seconds(),
		BytesSent: s.Sent - before.Sent, BytesReceived: s.Received - before.Received,
		Norm: s.Stats.Norm, OwnNorm: s.Stats.OwnNorm, Cosine: s.Stats.Cosine,
	}
	if busy := m.TrainingSeconds + m.StalledSeconds; busy > 0 {
		m.StalledShare = figures.Finite(m.StalledSeconds / busy)
	}
	if m.Tokens > 0 && m.Seconds > 0 {
		m.TokensPerSecond = figures.Finite(float64(m.Tokens) / m.Seconds)
	}
	for _, member := range s.Members {
		if c := member.Contribution; member.Self && c != nil && c.StepTime > 0 {
			m.StepSeconds = figures.Finite(c.StepTime.Seconds())
		}
	}
	return m
}

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
	c.MemoryBytes = figures.Finite(float64(s.Process.HeapBytes + s.Process.SharedBytes))
	if took := (s.Uptime - before.Uptime).Seconds(); took > 0 {
		c.UpBytesPerSecond = figures.Finite(float64(s.Sent-before.Sent) / took)
		c.DownBytesPerSecond = figures.Finite(float64(s.Received-before.Received) / took)
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
