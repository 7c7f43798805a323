// Package view has the whole run as one peer knows it, made for people: what is waited for, how far
// the slot is, the loss over the slots, the members, the bytes, the agreement, and what happened in
// sentences. All that shows a run takes it from here, so that they say the same.
//
//	w := view.NewWatcher(source)  // source asks a running peer, and puts its events into words
//	go w.Run(ctx)                 // asks again and again
//	changed := w.Look(show)       // calls show with what is known; changed closes when there is more
//
// What members say of themselves is text of strangers: it is cut short here, and whoever shows it
// escapes it. What a peer does not know is left out, and never shown as zero.
package view
