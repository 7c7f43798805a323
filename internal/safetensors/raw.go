package safetensors

import "io"

// Raw is the bytes of a tensor as they stand in the file; nil if the file has no tensor of that
// name.
func (f *File) Raw(name string) *io.SectionReader {
	i, ok := f.byName[name]
	if !ok {
		return nil
	}
	t := f.Tensors[i]
	return io.NewSectionReader(f.data, int64(t.begin), int64(t.end-t.begin))
}
