package membership

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// maxRecent is how many roots a short list keeps: of tips and branches that were gathered and not
// switched to, and of certificates that were shown.
const maxRecent = 16

// appendRecent appends to a short list and drops the oldest entry.
func appendRecent(list []slot.Root, h slot.Root) []slot.Root {
	list = append(list, h)
	return list[max(0, len(list)-maxRecent):]
}
