// What stands beside the devices: figures, resources with their last hour, plugins, and what the node lacks.

import { age, byId, clock, fill, inOrder, make, orderOf, plain } from "./elements.js";
import { devices, inAll, node, podOf, pods, rejected, resources, samples, sockets, tallyOf } from "./rows.js";
import { spark } from "./sparks.js";

const MOST_REJECTED = 20;
const WELL = new Set(["Live", "streaming"]); // The words of a node and of a plugin of plugbay.
const known = (number) => (number === null ? "unknown" : String(number));

export function showFigures() {
  const sick = inAll("unhealthy", "heldUnhealthy");
  const unsure = inAll("unknown", "heldUnknown");
  const figures = [
    [devices.size, "device", "devices"], [inAll("held", "heldUnhealthy", "heldUnknown"), "held", "held"], [inAll("free"), "free", "free"],
    [sick, "unhealthy", "unhealthy", sick ? "bad" : ""], [pods.size, "pod with devices", "pods with devices"],
  ];
  if (unsure) figures.splice(4, 0, [unsure, "of unknown health", "of unknown health", "unsure"]);
  if (rejected.size) figures.push([rejected.size, "pod refused", "pods refused", "bad"]);
  fill(byId("figures"), ...figures.map(([count, one, many, look = ""]) =>
    make("div", { class: `figure ${look}` }, make("b", {}, String(count)), make("span", {}, count === 1 ? one : many))));
}

const listed = () => [...resources.values()].sort((one, other) => inOrder(orderOf(one.resourceName), orderOf(other.resourceName)));

export function showResources() {
  const cards = listed().map(resourceCard);
  fill(byId("resources"), ...(cards.length ? cards : [make("p", { class: "empty" }, "None yet.")]));
}

function resourceCard(row) {
  const tally = tallyOf(row.resourceName);
  const seen = Object.values(tally).reduce((sum, each) => sum + each, 0);
  const unsure = tally.unknown + tally.heldUnknown;
  return make("div", { class: "resource", "data-key": row.resourceName },
    make("div", { class: "name" }, make("span", {}, row.resourceName), make("span", {}, `${row.allocated} of ${Math.max(row.capacity ?? 0, seen)} held`)),
    bar(tally, Math.max(row.capacity ?? 0, seen)),
    make("div", { class: "more" },
      make("span", {}, `capacity ${known(row.capacity)}`), make("span", {}, `allocatable ${known(row.allocatable)}`), make("span", {}, `free ${known(row.free)}`),
      row.unhealthy ? make("span", { class: "sick" }, `unhealthy ${row.unhealthy}`) : null, unsure ? make("span", { class: "unsure" }, `unknown health ${unsure}`) : null),
    spark(row.resourceName, samples.get(row.resourceName) ?? []));
}

// Every device once, in the colour of its tile: what is held from the left, what cannot be given from the right.
function bar(tally, most) {
  const part = (count, look) => {
    const element = make("i", { class: look });
    element.style.width = `${most ? (100 * count) / most : 0}%`;
    return element;
  };
  return make("div", { class: "bar", "aria-hidden": "true" }, part(tally.held + tally.heldUnknown, "held"), part(tally.heldUnhealthy, "sick"),
    make("i", { class: "rest" }), part(tally.releasing, "releasing"), part(tally.unknown, "unsure"), part(tally.unhealthy, "sick idle"));
}

// The newest first; a pod that is deleted is not there any more.
export function showRejected() {
  byId("rejected").hidden = !rejected.size;
  const newest = [...rejected.values()].sort((one, other) => Date.parse(other.time) - Date.parse(one.time));
  const more = newest.length - MOST_REJECTED;
  fill(byId("rejected-pods"), ...newest.slice(0, MOST_REJECTED).map(rejectedLine),
    ...(more > 0 ? [make("li", { "data-key": "more", class: "empty" }, `and ${more} more`)] : []));
}

function rejectedLine(row) {
  return make("li", { "data-key": row.uid },
    make("button", { type: "button", "data-pod": row.uid }, podOf(row)), make("span", {}, ` ${row.reason}${row.time ? `, ${age(row.time)} ago` : ""}`), make("p", {}, row.message));
}

export function showPlugins() {
  const list = listed();
  const lines = [...list.map(pluginLine), ...[...strangers(list)].map(socketLine)];
  fill(byId("plugins"), ...(lines.length ? lines : [make("li", { class: "empty" }, "No socket of a plugin is there.")]));
}

function pluginLine(row) {
  const state = row.plugin?.state || "state not known";
  const since = row.plugin?.since ? ` for ${age(row.plugin.since)}` : "";
  const look = !row.plugin ? "" : WELL.has(row.plugin.state) ? "well" : "off";
  return make("li", { "data-key": `r ${row.resourceName}`, class: look },
    make("button", { type: "button", "data-plugin": row.resourceName }, row.resourceName), make("span", {}, ` ${state}${since}`));
}

// Sockets of which nothing tells whose they are, as on any kubelet but plugbay's.
function* strangers(list) {
  const told = new Set(["kubelet.sock", ...list.map((row) => row.plugin?.socket)]);
  for (const row of sockets.values()) if (!told.has(row.name)) yield row;
}

export function stateOf(row) {
  return row.problem || (row.listening ? `process ${row.pid || "unknown"} ${row.command} listens`.replace("  ", " ") : "nothing listens");
}

function socketLine(row) {
  return make("li", { "data-key": `s ${row.name}`, class: row.listening ? "well" : "off" },
    make("button", { type: "button", "data-socket": row.name }, make("code", {}, row.name)), make("span", {}, ` ${stateOf(row)}`));
}

export function showNode() {
  if (!node.row) return;
  if (node.row.name) {
    byId("node").textContent = plain(node.row.name);
    document.title = plain(`Devices of ${node.row.name}`);
  }
  byId("root").textContent = plain(`plugbay · ${node.row.kubeletRoot}`);
  const notes = byId("notes");
  const sentences = [node.row.lacking, ...node.row.problems].filter((each) => each);
  notes.hidden = !sentences.length;
  fill(notes, ...sentences.map((sentence) => make("p", {}, sentence)));
}

let connection = 0;

// What the page says of itself: whether changes come, and whether they are all of the node.
export function showLive(state = connection) {
  connection = state;
  const lost = { [EventSource.CONNECTING]: node.row ? "connection lost, trying again" : "connecting", [EventSource.CLOSED]: "refused: the node's log has its address" };
  const live = byId("live");
  live.classList.toggle("on", state === EventSource.OPEN && node.row !== null && !node.row.partial);
  live.textContent = lost[state] ?? liveText(node.row);
}

function liveText(row) {
  if (!row) return "reading the node";
  if (row.asOf) return `not live: as of ${clock(Date.parse(row.asOf) / 1000)}`;
  return row.partial ? "live, incomplete" : "live";
}

export function showLegend() {
  const kinds = [
    ["Healthy", "free"], ["Healthy held", "held by a pod"], ["Unhealthy", "unhealthy"], ["Unhealthy held", "unhealthy and held"],
    ["Unknown", "of unknown health"], ["Healthy releasing", "being released"],
  ];
  fill(byId("legend"), ...kinds.map(([classes, label]) => make("span", {}, make("i", { class: `tile ${classes}` }), label)));
}
