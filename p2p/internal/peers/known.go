package peers

// Known is what a Network knows of its peers.
type Known struct {
	Members *Members
	Greeted *Greeted
	Events  *Events
}
