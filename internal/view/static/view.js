import * as chart from "./chart.js";
import { bytes, byId, count, has, make, pairs, percent, say, seconds } from "./dom.js";
import * as members from "./members.js";

const maxEvents = 200;

// The key stands behind the # of the address that was printed. It is kept for this tab alone.
let key = sessionStorage.getItem("key") ?? "";
function takeKey() {
  if (!/^#[A-Z2-7]{26}$/.test(location.hash)) return;
  key = location.hash.slice(1);
  sessionStorage.setItem("key", key);
  history.replaceState(null, "", location.pathname);
}
takeKey();
addEventListener("hashchange", () => {
  takeKey();
  location.reload();
});

const headers = () => (key ? { Authorization: `Bearer ${key}` } : {});

async function ask(path) {
  const answer = await fetch(path, { method: "POST", headers: headers(), cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer;
}

// listen takes in what the server tells, and begins again after it has ended.
async function listen() {
  for (;;) {
    let why = "The page's program does not answer: start p2pdiloco dashboard, or the peer, again.";
    try {
      const answer = await fetch("stream", { headers: headers(), cache: "no-store" });
      if (answer.ok) await read(answer.body);
      else why = (await answer.text()).trim();
      if (answer.status === 401) say(byId("headline"), "It takes the key to look at this run");
    } catch {
      // it says why below
    }
    fault(why);
    await new Promise((wake) => setTimeout(wake, 2000));
  }
}

async function read(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let first = true;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      if (first) forget();
      first = false;
      take(JSON.parse(rest.slice("data: ".length, end)));
      rest = rest.slice(end + 2);
    }
  }
}

// forget makes room for all anew, which a new connection begins with.
function forget() {
  members.forget();
  chart.forget();
  byId("events").replaceChildren();
}

function take(u) {
  if (has(u.fault)) fault(u.fault);
  if (has(u.key)) steering(u.key);
  if (u.run) run(u.run);
  if (u.members || u.gone) members.take(u.members ?? [], u.gone ?? []);
  if (u.now) now(u.now);
  if (u.points) chart.add(u.points);
  if (u.bytes) traffic(u.bytes);
  if (u.agreement) agreement(u.agreement);
  if (u.events) happened(u.events);
}

function fault(text) {
  byId("fault").hidden = !text;
  say(byId("fault"), text);
  if (text) phase("not known now", "bad");
}

function run(r) {
  say(byId("run"), r.name || "without a name");
  document.title = `${r.name || "p2pdiloco"} · p2pdiloco`;
  say(byId("peer"), r.peer);
  say(byId("about"), [
    r.private ? "private" : "open", r.spec?.mode && `mode ${r.spec.mode}`, r.spec?.codec, r.spec?.outer,
    r.spec?.aggregator,
    r.parameters && `${count(r.parameters)} parameters`, r.id && `ID ${r.id.slice(0, 16)}`,
  ].filter(Boolean).join(" · "));
}

function phase(text, kind) {
  byId("phase").className = `pill ${kind}`;
  say(byId("phase"), text);
}

let newest = null; // what was told of the peer's work
let spoken = { text: "", at: 0 };

function now(n) {
  newest = n;
  if (asking) answerComes();
  phase(n.phase.replace("_", ", "), n.phase === "running" ? "good" : n.phase === "paused" ? "bad" : "");
  say(byId("headline"), n.headline);
  speak(n.headline);
  stage(n.stage);
  byId("notes").replaceChildren(...n.notes.filter((t) => t !== n.headline).map((t) => make("li", {}, t)));
  pairs(byId("numbers"), [
    ["slot", n.last_slot ? `${count(n.slot)} of ${count(n.last_slot)}` : null],
    ["left of the run", has(n.left_s) ? seconds(n.left_s) : null],
    ["held-out loss", has(n.loss) ? n.loss.toFixed(4) : null],
    ["training loss", n.train_loss ? n.train_loss.toFixed(4) : null],
    ["stood still for others", has(n.stall_share) ? percent(n.stall_share) : null],
    ["peer is up", seconds(n.up_s)],
  ], true);
}

// speak tells a screen reader what is waited for, but not each step of it.
function speak(text) {
  const same = (t) => t.replace(/\d+ of \d+/g, "");
  if (same(text) === same(spoken.text) || Date.now() - spoken.at < 10000) return;
  spoken = { text, at: Date.now() };
  say(byId("spoken"), text);
}

function stage(s) {
  const bar = byId("stage-bar");
  byId("stage").hidden = !s || (!s.of && !has(s.left_s));
  if (!s) return;
  bar.hidden = !s.of;
  if (s.of) {
    bar.max = s.of;
    bar.value = Math.min(s.steps, s.of);
  }
  say(byId("stage-text"), [
    s.of ? `step ${count(s.steps)} of ${count(s.of)}` : "", has(s.left_s) ? `about ${seconds(s.left_s)} left` : "",
  ].filter(Boolean).join(", "));
}

const purposes = [
  ["exchange", "for all-reduce"], ["state", "for states for newcomers"], ["control", "for agreement"],
  ["gossip", "for gossip and DHT"], ["relayed", "through relays"],
];

function traffic(b) {
  const times = b.parallel && b.sent ? b.parallel / b.sent : 0;
  say(byId("bytes-headline"), times >= 1
    ? `${bytes(b.sent)} sent: ${times.toFixed(times < 10 ? 1 : 0)} times less than data-parallel training.`
    : `${bytes(b.sent)} sent.`);
  const bar = (name, value) => [
    make("span", {}, `${name}: ${bytes(value)}`),
    make("meter", { min: 0, max: Math.max(b.parallel, b.sent), value, "aria-label": `${name}, ${bytes(value)}` }),
  ];
  byId("bytes-bars").replaceChildren(
    ...(b.parallel ? [...bar("sent here", b.sent), ...bar("data-parallel", b.parallel)] : []));
  pairs(byId("bytes"), [
    ["received", bytes(b.received)],
    ...purposes.map(([name, words]) => [words, b.for[name].sent ? bytes(b.for[name].sent) : null]),
    ["limits", b.limits],
  ]);
  say(byId("reached"), b.reached);
}

function agreement(a) {
  say(byId("agreement-text"), a.text ? `${a.text[0].toUpperCase()}${a.text.slice(1)}.` : "");
  pairs(byId("agreement"), [
    ["height", count(a.height)],
    ["leader", a.leads_now && members.nameOf(a.leads_now)],
    ["electors", `${a.electors}, of which ${a.quorum} decide`],
    ["f", `${a.tolerated_liars} may lie or be gone`],
    ["terms lost", a.terms],
    ["trust", a.trust],
    ["state root", a.state_root.slice(0, 16)],
  ]);
  const motions = a.motions.map((m) => make("li", {}, motionText(m), readmission(m.peer, "Withdraw", m.action)));
  const removed = (a.removed ?? []).map((p) =>
    make("li", {}, `${members.nameOf(p)} is removed. `, readmission(p, "Readmit…")));
  byId("motions").replaceChildren(...motions, ...removed);
}

function motionText(m) {
  const what = m.peer ? `${m.action} ${members.nameOf(m.peer)}` : `${m.action} the secret`;
  const have = m.by.length;
  const lacks = m.lacks ? `${m.lacks} more make a quorum` : "a quorum: it is being recorded";
  return `A motion to ${what}: ${have} ${have === 1 ? "member has" : "members have"} it, ${lacks}. `;
}

function readmission(peer, label, action = "remove") {
  if (!canSteer || !peer || action !== "remove") return null;
  const button = make("button", { type: "button", class: "plain" }, label);
  button.addEventListener("click", () => move("readmit", peer, members.nameOf(peer)));
  return button;
}

function happened(more) {
  const list = byId("events");
  for (const e of more) {
    const at = new Date(e.time);
    const time = make("time", { dateTime: e.time, title: at.toLocaleString() }, at.toLocaleTimeString());
    list.prepend(make("li", { class: e.grave ? "grave" : "" }, time, make("span", {}, e.text)));
  }
  while (list.children.length > maxEvents) list.lastChild.remove();
  byId("events-empty").hidden = list.children.length > 0;
}

let canSteer = false;

function steering(has) {
  canSteer = has;
  byId("examine").disabled = byId("ask-do").disabled = !has;
  const needs = "This needs the key: open the address that was printed in the terminal.";
  if (!has) for (const id of ["doctor-text", "ask-text"]) say(byId(id), needs);
  members.allowSteering(has ? move : null);
}

const asks = {
  remove: ["Remove", "It is no longer a member and cannot come back, once a quorum of the members has the same " +
    "motion, each from its own operator. Until then the motion stands, and may be withdrawn."],
  readmit: ["Readmit", "This peer's motion to remove it is withdrawn; if it is removed already, a quorum of the " +
    "members has to let it in again."],
};

function move(action, peer, name) {
  const [verb, text] = asks[action];
  say(byId("dialog-title"), `${verb} ${name}?`);
  say(byId("dialog-text"), `${peer}: ${text}`);
  say(byId("dialog-do"), verb);
  const dialog = byId("dialog");
  dialog.returnValue = "";
  dialog.onclose = async () => {
    if (dialog.returnValue !== "do") return;
    const what = new URLSearchParams({ action, peer });
    try {
      await ask(`move?${what}`);
      say(byId("spoken"), `The motion to ${action} ${name} is made`);
      say(byId("moved"), "");
    } catch (e) {
      say(byId("moved"), `${verb} ${name}: ${e.message}`);
    }
  };
  dialog.showModal();
}

async function examine() {
  const button = byId("examine");
  button.disabled = true;
  say(byId("doctor-text"), "It examines the peer and its links: this takes some seconds.");
  try {
    const findings = await (await ask("doctor")).json();
    byId("findings").replaceChildren(...findings.map(finding));
    say(byId("doctor-text"), `Examined at ${new Date().toLocaleTimeString()}.`);
  } catch (e) {
    say(byId("doctor-text"), e.message);
  }
  button.disabled = !canSteer;
}

function finding(f) {
  const kind = { ok: "good", warn: "warn", fail: "bad" }[f.level] ?? "";
  const said = make("div", {}, make("p", {}, `${f.check}: ${f.what}`));
  if (f.do) said.append(make("p", { class: "do" }, `→ ${f.do}`));
  return make("li", {}, make("span", { class: `pill ${kind}` }, f.level), said);
}

let asking = false;

// answerComes says what an answer waits for.
function answerComes() {
  const left = has(newest?.stage?.left_s) ? `, about ${seconds(newest.stage.left_s)} left` : "";
  say(byId("ask-text"), `The answer comes when this round ends. Now: ${newest?.headline ?? "asking the peer"}${left}.`);
}

async function askModel(submitted) {
  submitted.preventDefault();
  if (asking) return;
  const shown = byId("answer");
  asking = byId("ask-do").disabled = true;
  answerComes();
  try {
    const a = await (await ask(`ask?${new URLSearchParams({ prompt: byId("prompt").value })}`)).json();
    if (a.error) throw new Error(a.error);
    say(shown, a.text);
    shown.hidden = false;
    say(byId("ask-text"), `The model after slot ${count(a.slot)}:`);
  } catch (e) {
    shown.hidden = true;
    say(byId("ask-text"), e.message);
  }
  asking = false;
  byId("ask-do").disabled = !canSteer;
}

byId("ask").addEventListener("submit", askModel);
byId("examine").addEventListener("click", examine);
listen();
