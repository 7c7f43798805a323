package spec

import "testing"

// A run is founded under no name that a ticket refuses: nobody could be invited to it.
func TestANameIsOneThatATicketCanHave(t *testing.T) {
	for name, good := range map[string]bool{
		"books": true, "Bücher/2": true, "本": true, "a\u200db": false, "a\u200bb": false, "a\u202eb": false,
		"a b": false, "a\tb": false, "\xff": false,
	} {
		if err := (Spec{Name: name}).Validate(); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}
