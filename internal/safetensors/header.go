package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// MaxHeader bounds a header, as the reference implementation does, in bytes.
const MaxHeader = 100_000_000

// What can be wrong with a file.
var (
	ErrHeader    = errors.New("safetensors: not a header of this format")
	ErrDuplicate = errors.New("safetensors: a name occurs twice")
	ErrDType     = errors.New("safetensors: unknown dtype")
	ErrShape     = errors.New("safetensors: the shape is no tensor's")
	ErrSize      = errors.New("safetensors: the byte range does not fit dtype and shape")
	ErrOverlap   = errors.New("safetensors: tensors overlap")
	ErrGap       = errors.New("safetensors: bytes that belong to no tensor")
	ErrTruncated = errors.New("safetensors: the file ends too early")
)

// DType is how an element is stored.
type DType string

// The dtypes that can be read: those of model parameters.
const (
	F32  DType = "F32"
	BF16 DType = "BF16"
	F16  DType = "F16"
)

// Readable says whether tensors of this dtype can be read.
func (d DType) Readable() bool { return d == F32 || d == BF16 || d == F16 }

// sizes are those of an element, in bytes. A file may hold tensors that nobody reads: masks and
// positions, which some models save beside their parameters.
var sizes = map[DType]uint64{
	F32: 4, BF16: 2, F16: 2,
	"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "I32": 4, "U32": 4,
	"I64": 8, "U64": 8, "F64": 8,
}

// Tensor is one tensor of a file.
type Tensor struct {
	Name  string
	DType DType
	Shape []uint64

	begin, end uint64 // of its bytes in the data
}

// Elements is the product of the shape.
func (t Tensor) Elements() uint64 { return slot.Tensor{Shape: t.Shape}.Elements() }

// parse reads a header for data of so many bytes. Tensors come out in the order of their bytes.
func parse(header []byte, data uint64) (map[string]string, []Tensor, error) {
	if len(header) == 0 || header[0] != '{' || !utf8.Valid(header) {
		return nil, nil, fmt.Errorf("%w: it is no JSON object in UTF-8", ErrHeader)
	}
	p := &parser{dec: json.NewDecoder(bytes.NewReader(header))}
	p.dec.UseNumber()
	p.file()
	if p.err == nil && len(bytes.Trim(header[p.dec.InputOffset():], " ")) != 0 {
		p.fail("something follows it")
	}
	if p.err != nil {
		return nil, nil, p.err
	}
	return p.metadata, p.tensors, cover(p.tensors, data)
}

// cover sorts tensors by their bytes and checks that these are all of the data, once.
func cover(tensors []Tensor, data uint64) error {
	slices.SortStableFunc(tensors, func(a, b Tensor) int {
		return slices.Compare([]uint64{a.begin, a.end}, []uint64{b.begin, b.end})
	})
	at, before := uint64(0), "the beginning"
	for _, t := range tensors {
		switch {
		case t.begin < at:
			return fmt.Errorf("%w: %q and %s", ErrOverlap, t.Name, before)
		case t.begin > at:
			return fmt.Errorf("%w: %d, between %s and %q", ErrGap, t.begin-at, before, t.Name)
		case t.end > data:
			return fmt.Errorf("%w: %q ends at byte %d of %d", ErrTruncated, t.Name, t.end, data)
		}
		at, before = t.end, fmt.Sprintf("%q", t.Name)
	}
	if at != data {
		return fmt.Errorf("%w: %d, after the last tensor", ErrGap, data-at)
	}
	return nil
}

// parser reads a header's JSON by tokens: encoding/json would accept equal keys, and keys in
// another case.
type parser struct {
	dec      *json.Decoder
	err      error
	metadata map[string]string
	tensors  []Tensor
}

func (p *parser) fail(format string, args ...any) {
	p.failAs(ErrHeader, format, args...)
}

func (p *parser) failAs(kind error, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %s", kind, fmt.Sprintf(format, args...))
	}
}

// token is the next one, nil after a fault.
func (p *parser) token() json.Token {
	if p.err != nil {
		return nil
	}
	t, err := p.dec.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		p.fail("%v", err)
		return nil
	}
	return t
}

// object calls member for every key of an object, which must read the value.
func (p *parser) object(what string, member func(key string)) {
	if p.token() != json.Delim('{') {
		p.fail("%s is no object", what)
	}
	seen := map[string]bool{}
	for p.err == nil && p.dec.More() {
		key, _ := p.token().(string)
		if seen[key] {
			p.failAs(ErrDuplicate, "%.300q in %s", key, what)
		}
		seen[key] = true
		if p.err == nil {
			member(key)
		}
	}
	p.token() // '}', or the decoder says what is wrong
}

func (p *parser) file() {
	p.object("the header", func(key string) {
		if key != metadataKey {
			p.tensor(key)
			return
		}
		p.metadata = map[string]string{}
		p.object(metadataKey, func(k string) { p.metadata[k] = p.text(metadataKey) })
	})
}

func (p *parser) text(what string) string {
	s, ok := p.token().(string)
	if !ok {
		p.fail("%s holds something else than a string", what)
	}
	return s
}

func (p *parser) tensor(name string) {
	t, what := Tensor{Name: name}, fmt.Sprintf("tensor %.300q", name)
	var offsets []uint64
	fields := 0
	p.object(what, func(key string) {
		fields++
		switch key {
		case "dtype":
			t.DType = DType(p.text(what))
		case "shape":
			t.Shape = p.numbers(what+": shape", trainer.MaxDims)
		case "data_offsets":
			offsets = p.numbers(what+": data_offsets", 2)
		default:
			p.fail("%s has a field %.100q", what, key)
		}
	})
	if p.err == nil && (fields != 3 || len(offsets) != 2) {
		p.fail("%s needs dtype, shape and two data_offsets", what)
	}
	if p.err != nil {
		return
	}
	t.begin, t.end = offsets[0], offsets[1]
	p.check(t)
	if p.tensors = append(p.tensors, t); len(p.tensors) > trainer.MaxTensors {
		p.fail("more than %d tensors", trainer.MaxTensors)
	}
}

// check holds a tensor's fields against each other.
func (p *parser) check(t Tensor) {
	n := uint64(1)
	for _, d := range t.Shape {
		if d > trainer.MaxElements || d > 0 && n > trainer.MaxElements/d {
			p.failAs(ErrShape, "%.300q %v: at most %d elements are allowed", t.Name, t.Shape,
				uint64(trainer.MaxElements))
			return
		}
		n *= d
	}
	switch size := sizes[t.DType]; {
	case size == 0:
		p.failAs(ErrDType, "%.100q of tensor %.300q", t.DType, t.Name)
	case t.begin > t.end || t.end-t.begin != n*size:
		p.failAs(ErrSize, "%.300q, %s %v: bytes %d to %d", t.Name, t.DType, t.Shape, t.begin, t.end)
	}
}

// numbers reads an array of at most so many unsigned integers.
func (p *parser) numbers(what string, most int) (list []uint64) {
	if p.token() != json.Delim('[') {
		p.fail("%s is no array", what)
	}
	for p.err == nil && p.dec.More() {
		n, ok := p.token().(json.Number)
		v, err := strconv.ParseUint(n.String(), 10, 63) // offsets are int64 in the end
		if !ok || err != nil || len(list) == most {
			p.fail("%s: up to %d whole numbers are allowed", what, most)
			return nil
		}
		list = append(list, v)
	}
	p.token()
	return list
}

// foreign says what a file is instead that has no header of this format, by its first bytes, and
// what to do; "" is not known.
func foreign(r io.ReaderAt) string {
	begin := make([]byte, 64)
	n, _ := r.ReadAt(begin, 0)
	text := strings.TrimLeft(string(begin[:n]), " \r\n\t\ufeff")
	switch {
	case strings.HasPrefix(text, "version https://"):
		return "a Git LFS pointer, which stands for the file: fetch the file itself with git lfs pull"
	case strings.HasPrefix(text, "<"):
		return "a web page: download the file itself, not the page that shows it"
	case strings.HasPrefix(text, "PK\x03\x04"), strings.HasPrefix(text, "\x80"):
		return "a PyTorch pickle (.bin, .pt), which is not read, because it can run code: save the model as " +
			".safetensors, with safetensors.torch or save_pretrained()"
	}
	return ""
}

// readHeader reads length and header from the front of a file of size bytes.
func readHeader(r io.ReaderAt, size int64) ([]byte, error) {
	var front [9]byte // the length, and the first byte of the header
	if n, err := r.ReadAt(front[:], 0); n < len(front) && err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if what := foreign(r); front[8] != '{' && what != "" {
		return nil, fmt.Errorf("%w: it is %s", ErrHeader, what)
	}
	if size < 8 {
		return nil, fmt.Errorf("%w: %d bytes", ErrTruncated, size)
	}
	n := binary.LittleEndian.Uint64(front[:])
	switch {
	case n > MaxHeader:
		return nil, fmt.Errorf("%w: it says that it has %d bytes, at most %d are allowed", ErrHeader, n, MaxHeader)
	case n > uint64(size-8):
		return nil, fmt.Errorf("%w: in the header, of %d bytes", ErrTruncated, n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(r, 8, int64(n)), b); err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	return b, nil
}
