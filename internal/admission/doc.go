// Package admission is how peers of a private run prove to each other that they belong to it, and how they let newcomers with a ticket in. It is
// pure: who carries the messages, and what is kept, is for others.
//
// All peers of a run share a Secret. It never leaves a peer but to a newcomer that has been admitted, or to a member that has not got it. Records of the
// run may put another one in force: a Ring is those that a peer holds, and the Standing of a peer tells who may go on with an older one. A proof is an HMAC
// under a key made from it, over who proves to whom and what is said: libp2p has authenticated both ends, so nobody can use a proof that was meant for another, and
// nobody can use somebody else's. The same holds for who has a token: its tag is an HMAC that only a member can make, and is itself the key
// of the newcomer's proof and of the member's.
//
//	newcomer or member: Ask(proof) -> member: Answer(proof, with a token the secret, tokens used) -> both have admitted each other
package admission
