package membership

import (
	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// passUnsaved marks the places before some entries are on disk.
func passUnsaved(entries []wire.Entry) {
	if !failpoint.Enabled {
		return
	}
	for _, e := range entries {
		switch e.(type) {
		case wire.EntryVote:
			failpoint.Here(failpoint.VoteUnsaved)
		case wire.EntryCommit:
			failpoint.Here(failpoint.CertificateUnsaved)
		}
	}
}

// passSaved marks the places after some entries are on disk, and before anything is signed.
func passSaved(entries []wire.Entry) {
	if !failpoint.Enabled {
		return
	}
	for _, e := range entries {
		switch e.(type) {
		case wire.EntryOffer:
			failpoint.Here(failpoint.OfferSaved)
		case wire.EntryHave:
			failpoint.Here(failpoint.HaveSaved)
		case wire.EntryVote:
			failpoint.Here(failpoint.VoteSaved)
		case wire.EntryCommit:
			failpoint.Here(failpoint.CertificateSaved)
		}
	}
}

// passSigned marks the place after a vote is signed, and before anybody has it.
func passSigned(body wire.Body) {
	if _, vote := body.(wire.Vote); failpoint.Enabled && vote {
		failpoint.Here(failpoint.VoteSigned)
	}
}
