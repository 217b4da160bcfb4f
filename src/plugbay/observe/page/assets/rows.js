// What the server has sent: rows by key, counts that follow them, the last hour. Nothing here touches the page.

import { plain } from "./elements.js";

const HOUR_S = 3600;
const MOST_EVENTS = 500;

export const devices = new Map();
export const resources = new Map();
export const sockets = new Map();
export const rejected = new Map(); // Pods that the node did not admit, by UID.
export const samples = new Map();
export const pods = new Map(); // How many devices each holds.
export const tallies = new Map(); // How many devices of each kind a resource has.
export const node = { row: null, events: [] };

const texts = new WeakMap();
let serial = 0;

export const podOf = (holder) => (holder.pod ? `${holder.namespace}/${holder.pod}` : holder.uid);
export const podKey = (holder) => holder.uid || podOf(holder); // PodResources tells pods by name, and by name alone.
export const holderOf = (holder) => `${podOf(holder)}/${holder.container}`;

export function healthOf(row) {
  return row.health.reason ? `${row.health.state}: ${row.health.reason}` : row.health.state;
}

export function describe(row) {
  const parts = [row.id, row.resourceName, healthOf(row)];
  if (row.releasing) parts.push("being released");
  if (row.holders.length) parts.push(`held by ${row.holders.map(holderOf).join(" and ")}`);
  else if (!row.releasing) parts.push("free");
  return plain(parts.join(", "));
}

export const search = { query: "" };

export function matches(row) {
  if (!search.query) return true;
  let text = texts.get(row);
  if (text === undefined) {
    text = [row.id, row.resourceName, row.health.reason, row.health.state, ...row.hostPaths, ...row.holders.map(holderOf)].join("\n").toLowerCase();
    texts.set(row, text);
  }
  return text.includes(search.query);
}

// Each device is of one kind.
function kindOf(row) {
  const { state } = row.health;
  if (row.holders.length) return { Unhealthy: "heldUnhealthy", Unknown: "heldUnknown" }[state] ?? "held";
  if (state !== "Healthy") return state === "Unhealthy" ? "unhealthy" : "unknown";
  return row.releasing ? "releasing" : "free";
}

const noTally = () => ({ held: 0, heldUnhealthy: 0, heldUnknown: 0, releasing: 0, free: 0, unhealthy: 0, unknown: 0 });

export const tallyOf = (resource) => tallies.get(resource) ?? noTally();

// The devices of some kinds, of all resources.
export function inAll(...kinds) {
  let sum = 0;
  for (const tally of tallies.values()) for (const kind of kinds) sum += tally[kind];
  return sum;
}

function count(row, step) {
  if (!tallies.has(row.resourceName)) tallies.set(row.resourceName, noTally());
  tallies.get(row.resourceName)[kindOf(row)] += step;
  for (const pod of new Set(row.holders.map(podKey))) {
    const left = (pods.get(pod) ?? 0) + step;
    if (left) pods.set(pod, left);
    else pods.delete(pod);
  }
}

const placeOf = { d: devices, r: resources, s: sockets, p: rejected };

// The key of a device is its whole row's; resources and sockets have their names, and pods their UIDs.
const nameOf = (key) => (key[0] === "d" ? key : key.slice(2));

export function put(key, row) {
  if (key === "node") {
    node.row = row;
    return;
  }
  if (key[0] === "d") {
    const before = devices.get(key);
    if (before) count(before, -1);
    count(row, 1);
  }
  placeOf[key[0]].set(nameOf(key), row);
}

export function drop(key) {
  if (key[0] === "d" && devices.has(key)) count(devices.get(key), -1);
  placeOf[key[0]]?.delete(nameOf(key));
}

export function* keys() {
  yield* devices.keys();
  for (const name of resources.keys()) yield `r ${name}`;
  for (const name of sockets.keys()) yield `s ${name}`;
  for (const uid of rejected.keys()) yield `p ${uid}`;
}

export function remember(lastHour) {
  samples.clear();
  for (const [name, known] of Object.entries(lastHour.samples)) samples.set(name, known);
  node.events = [];
  note(lastHour.events);
}

export function note(events) {
  for (const event of events) node.events.push({ ...event, serial: (serial += 1) });
  node.events.splice(0, Math.max(0, node.events.length - MOST_EVENTS));
}

export function sample(row, at) {
  const known = samples.get(row.resourceName) ?? [];
  known.push([at, row.allocated, row.allocatable, row.capacity]);
  while (known.length > 1 && known[1][0] < at - HOUR_S) known.shift();
  samples.set(row.resourceName, known);
}
