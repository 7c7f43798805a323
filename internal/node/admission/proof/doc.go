// Package proof is how peers of a private run prove to each other that they belong to it, and how
// they let newcomers with a ticket in. It is pure: other packages carry the messages and keep the
// state.
//
// All peers of a run share a Secret. A peer gives it only to a newcomer that has been admitted, or
// to a member that lacks it. Records of the run may put another one in force: a Ring is the secrets
// that a peer holds, and what the records say of a peer decides whether it may go on with an older
// one. A proof is an HMAC under a key made from the secret, over the prover, the verifier and the
// message. libp2p has authenticated both ends, so a proof is of use to no other prover and to no
// other verifier. The same holds for a peer with a token: its tag is an HMAC that only a member can
// make, and is the key of the newcomer's proof and of the member's.
//
//	newcomer or member: Ask(proof)
//	-> member: Answer(proof; the secret, if asked with a token; tokens used)
//	-> both have admitted each other
package proof
