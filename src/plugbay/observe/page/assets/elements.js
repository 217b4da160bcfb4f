// Elements made of data, and places that are filled anew without losing the focus: what stays the same is left alone.

export const byId = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== false) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null).map((child) => (typeof child === "string" ? plain(child) : child)));
  return element;
}

// Control characters and changes of direction are shown, as texts come from plugins and pods.
export function plain(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, (each) => `\\u${each.codePointAt(0).toString(16).padStart(4, "0")}`);
}

// A number with its noun; the plural of most nouns takes an s.
export const amount = (number, noun, plural = `${noun}s`) => `${number} ${number === 1 ? noun : plural}`;

// A text on one line, of which the middle gives way where there is no room: names are told apart by how they end.
export function cut(tag, attributes, text, kept = 8) {
  const letters = [...plain(text)];
  const at = letters.length - kept;
  if (at <= kept) return make(tag, attributes, text);
  return make(tag, { ...attributes, class: `cut ${attributes.class ?? ""}` }, make("span", {}, letters.slice(0, at).join("")), make("i", {}, letters.slice(at).join("")));
}

// A text to order by instead, in which numbers count as such. What Intl has for texts and times takes 10 ms to load.
export const orderOf = (text) => text.replace(/\d+/g, (digits) => digits.padStart(12, "0"));

export const inOrder = (one, other) => (one < other ? -1 : one > other ? 1 : 0);

export function age(since, now = Date.now()) {
  if (!since) return "";
  const seconds = Math.max(0, Math.round((now - Date.parse(since)) / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

const two = (number) => String(number).padStart(2, "0");
const minuteOf = (date) => `${two(date.getHours())}:${two(date.getMinutes())}`;
const clockOf = (date) => `${minuteOf(date)}:${two(date.getSeconds())}`;

export const minute = (at) => minuteOf(new Date(at * 1000));
export const clock = (at) => clockOf(new Date(at * 1000));

export function moment(since) {
  if (!since) return "";
  const date = new Date(since);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clockOf(date)} (${age(since)} ago)`;
}

export function facts(pairs) {
  const turns = {};
  const told = pairs.filter(([, value]) => value !== "" && value !== null);
  return make("dl", {}, ...told.flatMap(([name, value]) => {
    const key = `${name} ${(turns[name] = (turns[name] ?? 0) + 1)}`;
    return [make("dt", { "data-key": `name ${key}` }, name), make("dd", { "data-key": key }, value)];
  }));
}

// Fill a place with elements. Those that were there already, by their data-key or their turn, are changed and not replaced.
export function fill(place, ...fresh) {
  const keys = new Set(fresh.map(keyOf).filter((key) => key !== undefined));
  const known = new Map();
  for (const child of [...place.childNodes]) {
    const key = keyOf(child);
    if (key === undefined) continue;
    if (keys.has(key)) known.set(key, child);
    else child.remove();
  }
  let next = place.firstChild;
  for (const child of fresh) {
    const key = keyOf(child);
    const old = key !== undefined ? known.get(key) : next && keyOf(next) === undefined && next.nodeName === child.nodeName ? next : undefined;
    if (old === undefined) {
      place.insertBefore(child, next);
      continue;
    }
    if (old === next) next = next.nextSibling;
    else place.insertBefore(old, next);
    become(old, child);
  }
  while (next) {
    const last = next;
    next = next.nextSibling;
    last.remove();
  }
}

const keyOf = (child) => child.dataset?.key;

function become(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) === value) continue;
    if (name === "style") old.style.cssText = fresh.style.cssText; // As an attribute the page's policy refuses it.
    else old.setAttribute(name, value);
  }
  fill(old, ...fresh.childNodes);
}
