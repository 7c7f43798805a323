package bench

import "github.com/p2pdiloco/p2pdiloco/internal/sources"

// Rate is bits a second; as a flag a number with kbit, mbit or gbit behind it.
type Rate = sources.Rate
