package limits

// MinRate is the least bound on a rate, in bytes a second: with less a peer looks dead to the
// others.
const MinRate = 16_000

// MaxRunName is how long the name of a run may be, in bytes.
const MaxRunName = 256
