// Package twins notices that two processes run with one key: somebody has copied an identity file.
// libp2p cannot dial its own peer ID, so the two never meet. A third peer, the witness, has
// connections to both, and sees two processes behind one peer ID.
//
// Twins is both sides of ProtocolTwin. Its caller serves Answer, runs Watch, and looks at Found:
//
//  1. A witness that has two connections or more to one peer ID opens a stream on each of them. The
//     process behind it says a random number that it drew when it started (its nonce), and a
//     challenge that it drew for this stream.
//  2. Equal nonces are one process with several connections. There the streams end, and these
//     connections are not asked again.
//  3. Of two different nonces, the witness gives each process the challenge of the other one. Each
//     signs it, with its own nonce, by the key that they share.
//  4. The witness gives each process the nonce and the signature of the other one. A signature by
//     its own key, of a nonce that is not its own, over the challenge that it drew a moment ago, is
//     the proof: each answers that it has it, and acts once the witness has ended the streams.
//
// Nobody without the key can make the proof, a witness that lies included. Nor is an earlier
// process that has ended ever taken for a twin: the challenge is younger than this process, so who
// signed it ran beside it. There is no clock in this, and no time limit on which it depends: a
// connection that only looks alive, as QUIC's does for 45 s after a crash, gives no answer.
//
// Strangers. A process answers some streams at once of each peer (the caller's bound), and signs so
// often for all strangers together, so often for members. A witness asks members first, and so many
// strangers at once. It keeps a record of the peers that have several connections, and no others.
package twins
