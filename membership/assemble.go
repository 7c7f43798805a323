package membership

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// peers is what is known of other peers.
type peers struct {
	presence *presence
	evidence *evidence
	proofs   *proofs
	clones   *clones
	quorum   *quorum

	turnout    *turnout
	statements *statements
}

// memberRules is what decides which peers are members, and what this one does as a member.
type memberRules struct {
	motions *motions
	model   *model
	own     *own
	roster  *roster
}

// branches is what follows the chain, and what chooses between its branches. It changes with rules
// about forks, and with nothing else.
type branches struct {
	pledges   *pledges
	doubts    *doubts
	catchup   *catchup
	fork      *fork
	competing *competing
	founder   *founder
	exit      *exit
	announcer *announcer
	news      *news
}

// decision is what decides the open height. It changes with the rules of ballots.
type decision struct {
	history     *history
	audits      *audits
	acceptor    *acceptor
	participant *participant
	planner     *planner
	pacemaker   *pacemaker
	drafter     *drafter
	leader      *leader
}

// assemble makes a machine of its parts, each of which knows those made before it and none made
// after it.
func assemble(f *facts, e *effects) *Machine {
	m := &Machine{facts: f, effects: e, height: &height{}}
	m.makePeers(f, e)
	m.makeMembers(f, e)
	m.makeBranches(f, e)
	m.makeDecision(f, e)
	return m
}

func (m *Machine) makePeers(f *facts, e *effects) {
	m.presence = newPresence(f, e)
	m.evidence = &evidence{facts: f, effects: e, presence: m.presence}
	m.evidence.accusing = accusing{
		asked: map[slot.PeerID]question{}, idle: map[slot.PeerID]int{}, unsent: map[memberKey]struct{}{},
	}
	m.proofs = &proofs{
		facts: f, presence: m.presence, evidence: m.evidence, known: map[slot.PeerID][]provenOffer{},
	}
	m.clones = &clones{facts: f, effects: e}
	m.quorum = &quorum{facts: f, effects: e, presence: m.presence, evidence: m.evidence}
	m.turnout = &turnout{facts: f, quorum: m.quorum, of: map[memberKey]*participation{}}
	m.statements = newStatements(f, e, m.presence, m.evidence, m.quorum, m.turnout)
}

func (m *Machine) makeMembers(f *facts, e *effects) {
	m.motions = &motions{facts: f, effects: e, presence: m.presence, quorum: m.quorum, motionState: newMotionState()}
	m.model = newModel(f, e, m.presence)
	m.own = &own{facts: f, effects: e, model: m.model, mineAt: never}
	m.roster = &roster{
		facts: f, presence: m.presence, evidence: m.evidence, motions: m.motions, model: m.model, own: m.own,
		proofs: m.proofs, statements: m.statements,
	}
}

func (m *Machine) makeBranches(f *facts, e *effects) {
	m.pledges = &pledges{facts: f, kept: map[wire.Position]wire.Pledge{}}
	m.doubts = &doubts{facts: f, effects: e}
	m.catchup = &catchup{
		facts: f, effects: e, presence: m.presence, doubts: m.doubts, need: need{at: never},
	}
	m.fork = &fork{
		facts: f, effects: e, presence: m.presence, quorum: m.quorum, model: m.model, own: m.own, roster: m.roster,
		pledges: m.pledges,
	}
	m.competing = &competing{
		facts: f, effects: e, presence: m.presence, own: m.own, doubts: m.doubts, pledges: m.pledges,
		most: maxBranchBytes, fork: m.fork, evidence: m.evidence,
	}
	m.founder = &founder{
		facts: f, effects: e, presence: m.presence, model: m.model, own: m.own, catchup: m.catchup, pledges: m.pledges,
	}
	m.exit = &exit{
		facts: f, effects: e, presence: m.presence, evidence: m.evidence, quorum: m.quorum, model: m.model,
		own: m.own, roster: m.roster, doubts: m.doubts, catchup: m.catchup, fork: m.fork,
	}
	m.announcer = &announcer{
		facts: f, effects: e, presence: m.presence, model: m.model, own: m.own, roster: m.roster,
		aliveAt: never, askedAt: never,
	}
	m.news = &news{
		facts: f, effects: e, presence: m.presence, motions: m.motions, own: m.own, catchup: m.catchup,
		turnout: m.turnout, statements: m.statements,
	}
}

func (m *Machine) makeDecision(f *facts, e *effects) {
	m.history = &history{
		facts: f, effects: e, height: m.height,
		presence: m.presence, slotAt: never,
	}
	hiding := &hiders{facts: f, effects: e, height: m.height, of: map[memberKey]hider{}}
	m.audits = &audits{
		facts: f, effects: e, height: m.height, presence: m.presence, evidence: m.evidence, proofs: m.proofs,
		hiders: hiding,
	}
	m.acceptor = &acceptor{
		facts: f, effects: e, height: m.height,
		presence: m.presence, proofs: m.proofs, motions: m.motions, model: m.model, pledges: m.pledges,
		history: m.history, audits: m.audits,
	}
	m.participant = &participant{
		facts: f, effects: e, height: m.height,
		presence: m.presence, proofs: m.proofs, motions: m.motions, model: m.model, own: m.own, pledges: m.pledges,
		acceptor: m.acceptor, history: m.history, statements: m.statements, evidence: m.evidence, audits: m.audits,
	}
	m.planner = &planner{
		facts: f, effects: e, height: m.height,
		presence: m.presence, proofs: m.proofs, model: m.model, own: m.own, acceptor: m.acceptor, history: m.history,
		roster: m.roster, hiders: hiding,
	}
	m.pacemaker = &pacemaker{
		facts: f, effects: e, height: m.height,
		presence: m.presence, quorum: m.quorum, motions: m.motions, roster: m.roster,
		pledges: m.pledges, acceptor: m.acceptor, planner: m.planner, history: m.history,
	}
	m.drafter = &drafter{
		facts: f, effects: e, height: m.height,
		presence: m.presence, proofs: m.proofs, motions: m.motions, model: m.model, roster: m.roster,
		pledges: m.pledges, planner: m.planner, evidence: m.evidence, audits: m.audits,
	}
	m.leader = &leader{
		facts: f, effects: e, height: m.height,
		presence: m.presence, quorum: m.quorum, proofs: m.proofs, motions: m.motions, model: m.model, roster: m.roster,
		pledges: m.pledges, acceptor: m.acceptor, planner: m.planner, drafter: m.drafter, pacemaker: m.pacemaker,
	}
}
