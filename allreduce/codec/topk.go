package codec

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

// TopK names the sparse codec (SparseLoCo, arXiv 2508.15706): of each block the values of largest
// magnitude, at 2 or 4 bits, and their positions. kernel.TopK has the format.
const TopK = "topk"

// defaultK and defaultBits are those of topk without parameters.
const (
	defaultK    = 64
	defaultBits = 2
)

// newTopK returns topk with parameters, K:BITS.
func newTopK(parameters string) (Codec, error) {
	k, bits, _ := strings.Cut(parameters, ":")
	name := TopK + ":" + parameters
	var format kernel.TopK
	var err1, err2 error
	format.K, err1 = strconv.Atoi(k)
	format.Bits, err2 = strconv.Atoi(bits)
	if err1 != nil || err2 != nil || format.K < 1 || format.K > kernel.MaxTopK ||
		format.Bits != 2 && format.Bits != 4 ||
		name != FormatTopK(format.K, format.Bits) {
		return Codec{}, fmt.Errorf("codec %.40q: %s:K:BITS has K from 1 to %d, the values sent of each %d, and 2 or 4 "+
			"bits", name, TopK, kernel.MaxTopK, kernel.TopKBlock)
	}
	return sparseCodec(name, format), nil
}

// FormatTopK is the name of topk with parameters.
func FormatTopK(k, bits int) string { return fmt.Sprintf("%s:%d:%d", TopK, k, bits) }

// sparseCodec is topk in a format. Its growth is that of a value at the middle between 0 and the
// lowest level, which becomes that level.
func sparseCodec(name string, format kernel.TopK) Codec {
	return Codec{name, kernel.TopKBlock, format.K, 4, 0.95, format.Size, format.Encode, format.Decode}
}
