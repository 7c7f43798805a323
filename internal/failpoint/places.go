package failpoint

// Place names a place in the code.
type Place string

// The places, in the order in which a slot passes them.
const (
	// OfferSaved: the number of an offer is on disk, and nobody has the offer yet.
	OfferSaved Place = "offer-saved"
	// OutcomeHalf: a part of an outcome's file is written.
	OutcomeHalf Place = "outcome-half"
	// OutcomeHeld: the outcome is on disk, and HAVE is not given yet.
	OutcomeHeld Place = "outcome-held"
	// HaveSaved: HAVE is on disk, and not signed yet.
	HaveSaved Place = "have-saved"
	// VoteUnsaved: the vote is decided, and not on disk yet.
	VoteUnsaved Place = "vote-unsaved"
	// LogHalf: half of what the log of the ledger gets is written.
	LogHalf Place = "log-half"
	// VoteSaved: the vote is on disk, and not signed yet.
	VoteSaved Place = "vote-saved"
	// VoteSigned: the vote is signed, and nobody has it yet.
	VoteSigned Place = "vote-signed"
	// CertificateUnsaved: a certificate has come, and is not on disk yet.
	CertificateUnsaved Place = "certificate-unsaved"
	// CertificateSaved: the certificate is on disk, and nobody was told.
	CertificateSaved Place = "certificate-saved"
	// ApplyBegins: the outer step of a certified record is about to begin.
	ApplyBegins Place = "apply-begins"
	// Applied: the outer step is done in memory, and there is no checkpoint of it.
	Applied Place = "applied"
	// CheckpointHalf: a part of a checkpoint's file is written.
	CheckpointHalf Place = "checkpoint-half"
	// CheckpointSaved: a checkpoint is on disk, and what it makes needless is not removed yet.
	CheckpointSaved Place = "checkpoint-saved"
)

// Places lists all places.
func Places() []Place {
	return []Place{
		OfferSaved, OutcomeHalf, OutcomeHeld, HaveSaved, VoteUnsaved, LogHalf, VoteSaved, VoteSigned,
		CertificateUnsaved, CertificateSaved, ApplyBegins, Applied, CheckpointHalf, CheckpointSaved,
	}
}
