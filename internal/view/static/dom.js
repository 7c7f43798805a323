// What comes from a peer becomes text, and never markup: nothing here or elsewhere sets HTML.

export const byId = (id) => document.getElementById(id);

// make makes an element. Children are elements or texts; those that are null are left out.
export function make(tag, properties = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") e.className = value;
    else if (name.includes("-") || name === "role" || name === "for") e.setAttribute(name, value);
    else e[name] = value;
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

// say sets a text, if it is another one: a screen reader repeats what is set again.
export function say(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// pairs fills a list of names and values. Those without a value are left out.
export function pairs(list, rows, wrapped = false) {
  const items = [];
  for (const [name, value] of rows) {
    if (value === null || value === undefined || value === "") continue;
    const pair = [make("dt", {}, name), make("dd", {}, value)];
    if (wrapped) items.push(make("div", {}, ...pair));
    else items.push(...pair);
  }
  list.replaceChildren(...items);
}

export const has = (v) => v !== null && v !== undefined;

export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return `${i > 0 && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

export function seconds(s) {
  if (s < 1) return `${Math.round(1000 * s)} ms`;
  if (s < 120) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${(s / 3600).toFixed(1)} h`;
  return `${Math.round(s / 86400)} days`;
}

const whole = new Intl.NumberFormat("en"); // to make one takes as long as 50 numbers
export const count = (n) => whole.format(n);
export const percent = (x) => `${(100 * x).toFixed(x < 0.1 ? 1 : 0)}%`;
export const digits = (x, n = 3) => String(Number(x.toPrecision(n)));
