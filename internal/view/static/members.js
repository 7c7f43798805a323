import { byId, bytes, count, digits, has, make, percent, say, seconds } from "./dom.js";

const bad = ["missing", "mute", "evicted"];
const waysInOrder = ["itself", "direct", "punched", "relayed", "not connected"];

// A column has a value to sort by, and a text. Columns that no member has a value of are left out.
const columns = [
  { name: "Member", key: (m) => m.name || m.short, head: true },
  { name: "State", key: (m) => m.state, cell: (m) => make("span", { class: pill(m) }, m.state) },
  { name: "Step", key: (m) => (m.of ? m.steps / m.of : m.steps || null), cell: step, number: true },
  { name: "Tokens/s", key: (m) => m.says?.tokens_per_second, cell: (m) => count(+digits(m.says.tokens_per_second)),
    number: true, title: "or samples, in its newest slot, as it says" },
  { name: "Share", key: (m) => m.share, cell: (m) => percent(m.share), number: true,
    title: "of all inner steps in the newest slot" },
  { name: "Loss", key: (m) => m.says?.loss, cell: (m) => digits(m.says.loss, 4), number: true,
    title: "training loss of its newest round, as it says" },
  { name: "Norm", key: (m) => m.norm, cell: norm, number: true,
    title: "of its pseudo-gradient; in brackets against the median" },
  { name: "Cosine", key: (m) => m.cosine, cell: (m) => m.cosine.toFixed(2), number: true,
    title: "to what the others contributed" },
  { name: "Trimmed", key: (m) => m.trimmed, cell: (m) => percent(m.trimmed), number: true,
    title: "share of its values that were left out" },
  { name: "Reached", key: (m) => waysInOrder.indexOf(m.way) + (m.rtt_ms ?? 0) / 1e6, cell: way },
  { name: "Stalled", key: (m) => m.says?.stalled_share, cell: (m) => percent(m.says.stalled_share), number: true,
    title: "share of its newest slot in which its trainer waited, as it says" },
  { name: "Last seen", key: (m) => m.heard_s, cell: (m) => (m.heard_s ? `${seconds(m.heard_s)} ago` : "now"),
    number: true },
  { name: "Held out", key: (m) => m.says?.held_out_loss, cell: (m) => digits(m.says.held_out_loss, 4), number: true,
    title: "held-out loss of the newest anchor that it measured, as it says" },
  { name: "Up, down", key: (m) => m.says?.up_bytes_per_second, cell: updown, number: true,
    title: "bytes a second that it sends and receives, as it says" },
  { name: "Uplink", key: (m) => m.uplink, cell: (m) => `${bytes(1000 * m.uplink)}/s`, number: true,
    title: "the rate that it measured as it sent to others" },
  { name: "Memory", key: (m) => m.says?.memory_bytes, cell: (m) => bytes(m.says.memory_bytes), number: true,
    title: "of its node, as it says" },
  { name: "Role", key: (m) => ["leader", "elector", "member"].indexOf(m.role), cell: (m) => m.role },
  { name: "Slot", key: (m) => m.slot, cell: (m) => count(m.slot), number: true },
  { name: "Version", key: (m) => m.says?.version, cell: (m) => m.says.version, title: "of its program, as it says" },
];

const members = new Map(); // by ID
const rows = new Map(); // by ID: a body of the table
const stale = new Set(); // IDs of members whose rows show what they were before
let sort = { column: null, down: false };
let shown = []; // columns
let steer = null; // what a button of a member does; null: there is no key

function pill(m) {
  if (bad.includes(m.state)) return "pill bad";
  if (m.state === "late" || m.state === "leaving") return "pill warn";
  return m.contributes ? "pill good" : "pill";
}

function step(m) {
  return m.of ? `${count(m.steps)} of ${count(m.of)}` : count(m.steps);
}

function updown(m) {
  const rate = (v) => (has(v) ? `${bytes(v)}/s` : "–");
  return `${rate(m.says.up_bytes_per_second)}, ${rate(m.says.down_bytes_per_second)}`;
}

function norm(m) {
  return digits(m.norm) + (has(m.ratio) ? ` (${digits(m.ratio, 2)}×)` : "");
}

function way(m) {
  const rate = m.rate ? `${bytes(1000 * m.rate)}/s` : "";
  return [m.way, m.transport, rate, has(m.rtt_ms) ? `${digits(m.rtt_ms, 2)} ms` : ""].filter(Boolean).join(" ");
}

export function forget() {
  members.clear();
}

// take takes in members that have changed, and those that are gone.
export function take(changed, gone) {
  for (const id of gone) members.delete(id);
  for (const m of changed) {
    members.set(m.id, m);
    stale.add(m.id);
  }
  show();
}

export function allowSteering(move) {
  steer = move;
  rows.clear();
  show();
}

const empty = (v) => v === null || v === undefined || v === 0 || v === "";

function show() {
  const all = [...members.values()];
  const now = columns.filter((c) => c.head || all.some((m) => !empty(c.key(m))));
  if (now.length !== shown.length || now.some((c, i) => c !== shown[i])) {
    shown = now;
    rows.clear();
    heads();
  }
  const table = byId("table");
  const words = byId("filter").value.toLowerCase().split(/\s+/);
  const wanted = order(all).filter((m) => matches(m, words)).map(current);
  const bodies = [...table.tBodies];
  if (wanted.length !== bodies.length || wanted.some((b, i) => b !== bodies[i])) place(table, wanted);
  const warned = all.filter((m) => m.warnings?.length).length;
  const hidden = all.length - wanted.length;
  say(byId("members-text"), [
    `${count(all.length)} ${all.length === 1 ? "member" : "members"}, of which ` +
      `${count(all.filter((m) => m.contributes).length)} contribute`,
    warned ? `${count(warned)} with a warning` : "no warnings", hidden ? `${count(hidden)} not shown` : "",
  ].filter(Boolean).join("; ") + ".");
}

// place puts the bodies of the table in order. A button in one of them keeps the focus.
function place(table, wanted) {
  const id = document.activeElement?.closest?.("tbody")?.dataset.id;
  for (const b of [...table.tBodies]) if (!wanted.includes(b)) b.remove();
  wanted.forEach((b, i) => table.tBodies[i] !== b && table.insertBefore(b, table.tBodies[i] ?? null));
  if (id && document.activeElement === document.body) rows.get(id)?.querySelector("button")?.focus();
}

const names = new Intl.Collator("en", { numeric: true }); // gpu-2 comes before gpu-10

// order sorts: without a choice this peer, those with warnings, and the others by name.
function order(all) {
  const by = (key) => (a, b) => {
    const x = key(a), y = key(b);
    if (!has(x) || !has(y)) return has(y) - has(x); // those without a value come last
    const less = typeof x === "string" ? names.compare(x, y) : x - y;
    return sort.down ? -less : less;
  };
  const usual = new Map(all.map((m) => [m, `${m.self ? 0 : m.warnings?.length ? 1 : 2}${m.name || m.short}`]));
  all.sort((a, b) => names.compare(usual.get(a), usual.get(b)));
  return sort.column ? all.sort(by(sort.column.key)) : all;
}

function matches(m, words) {
  const text = [m.id, m.name, m.state, m.role, m.way, ...(m.warnings ?? [])].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

function heads() {
  const head = (c) => {
    const button = make("button", { type: "button", title: c.title ?? "" }, c.name);
    button.addEventListener("click", () => choose(c));
    const th = make("th", { scope: "col", class: c.number ? "n" : "" }, button);
    if (sort.column === c) th.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
    return th;
  };
  const last = make("td", {}, make("span", { class: "sr" }, "What can be done"));
  byId("columns").replaceChildren(...shown.map(head), ...(steer ? [last] : []));
}

// choose sorts by a column, then the other way round, then as usual. Numbers begin with the largest.
function choose(c) {
  if (sort.column !== c) sort = { column: c, down: !!c.number };
  else if (sort.down === !!c.number) sort.down = !sort.down;
  else sort = { column: null, down: false };
  heads();
  const again = shown.indexOf(c);
  byId("columns").cells[again].firstChild.focus();
  show();
}

// current is the row of a member as it is now. What is the same stays where it is, with the focus and
// what the user has marked.
function current(m) {
  const old = rows.get(m.id);
  if (old && !stale.delete(m.id)) return old;
  const now = row(m);
  if (!old) return now;
  const [cells, fresh] = [[...old.rows[0].cells], [...now.rows[0].cells]];
  cells.forEach((cell, i) => cell.isEqualNode(fresh[i]) || cell.replaceWith(fresh[i]));
  if (old.rows[1] && now.rows[1]?.isEqualNode(old.rows[1])) now.rows[1].remove();
  else old.rows[1]?.remove();
  if (now.rows[1]) old.append(now.rows[1]);
  rows.set(m.id, old);
  return old;
}

function row(m) {
  const cells = shown.map((c) => {
    if (c.head) return nameCell(m);
    const text = has(c.key(m)) ? c.cell(m) : "–";
    return make("td", { class: c.number ? "n" : "" }, text);
  });
  if (steer) cells.push(make("td", {}, m.self ? null : removal(m)));
  const body = make("tbody", {}, make("tr", {}, ...cells));
  body.dataset.id = m.id;
  if (m.warnings?.length) {
    const said = make("td", { colSpan: cells.length }, ...m.warnings.map((w) => make("p", {}, w)));
    body.append(make("tr", { class: "warnings" }, said));
  }
  rows.set(m.id, body);
  return body;
}

function nameCell(m) {
  const tags = [m.name ? m.short : "", m.self ? "this peer" : "", m.role === "leader" ? "leader" : ""];
  const tag = make("span", { class: "tag" }, tags.filter(Boolean).join(", "));
  return make("th", { scope: "row", title: m.id }, m.name || m.short, tag);
}

function removal(m) {
  const name = m.name || m.short;
  const button = make("button", { type: "button", class: "plain", "aria-label": `Remove ${name}` }, "Remove…");
  button.addEventListener("click", () => steer("remove", m.id, name));
  return button;
}

export function nameOf(id) {
  const m = members.get(id);
  return m ? m.name || m.short : id.slice(-6);
}

byId("filter").addEventListener("input", show);
