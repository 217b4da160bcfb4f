// Devices as tiles, by NUMA node and resource.

import { byId, cut, fill, inOrder, make, orderOf, plain } from "./elements.js";
import { DenseTiles } from "./dense.js";
import { describe, devices, matches, node } from "./rows.js";

const ROOMY = 160; // A group with more devices than this is drawn small,
const ROOMY_IN_ALL = 800; // and all groups are if there are more devices than this.
const SHORT = 64; // Below up to so many devices there is room for what happened.
const NARROWEST = 13; // The letters on a line of a tile,
const WIDEST = 19; // as many as the longest text of its group needs.
const TAIL = 5; // The last letters of a device's ID, which stay where there is no room for all,
const LONGEST_TAIL = 15; // or as many as tell it from others that begin alike.

const groups = new Map();
const groupOfKey = new Map();
const dirty = new Set();

const numaOf = (row) => (row.numaNodes === null || row.numaNodes.length === 0 ? "none" : row.numaNodes.join(","));

function titleOf(numa) {
  if (numa === "none") return "Without a NUMA node";
  return numa.includes(",") ? `NUMA nodes ${numa}` : `NUMA node ${numa}`;
}

export function putTile(key, row) {
  const id = `${numaOf(row)}\n${row.resourceName}`;
  let group = groupOfKey.get(key);
  if (group && group.id !== id) {
    dropTile(key);
    group = undefined;
  }
  if (!group) {
    group = groups.get(id) ?? new Group(id, numaOf(row), row.resourceName);
    groups.set(id, group);
    groupOfKey.set(key, group);
    group.members.set(key, orderOf(row.id));
    group.order = null;
  }
  group.changed.add(key);
  dirty.add(group);
}

export function dropTile(key) {
  const group = groupOfKey.get(key);
  if (!group) return;
  groupOfKey.delete(key);
  group.members.delete(key);
  group.changed.delete(key);
  group.order = null;
  dirty.add(group);
}

let wereAllDense = false;

export function showTiles() {
  const areAllDense = devices.size > ROOMY_IN_ALL;
  for (const group of areAllDense === wereAllDense ? dirty : groups.values()) group.show(areAllDense);
  wereAllDense = areAllDense;
  dirty.clear();
  const empty = byId("no-devices");
  document.querySelector("main").classList.toggle("short", devices.size <= SHORT);
  if (devices.size) empty?.remove();
  else fill(byId("devices"), make("p", { id: "no-devices", class: "empty" }, node.row ? "No plugin has offered a device here yet." : "The node is being read for the first time."));
}

// After a search all tiles are dressed anew.
export function dimTiles() {
  for (const group of groups.values()) group.view?.dim();
}

export function found() {
  let sum = 0;
  for (const row of devices.values()) sum += matches(row);
  return sum;
}

export function focusFirstMatch() {
  for (const list of document.querySelectorAll("#devices [role=group]")) {
    const group = groups.get(list.dataset.group);
    const key = group?.order?.find((each) => matches(devices.get(each)));
    if (key !== undefined) return group.view.focus(key);
  }
}

class Group {
  constructor(id, numa, resource) {
    this.id = id;
    this.numa = numa;
    this.resource = resource;
    this.members = new Map(); // Keys with what they are ordered by.
    this.order = null;
    this.changed = new Set();
    this.view = null;
    this.element = null;
  }

  show(areAllDense) {
    if (!this.members.size) return this.leave();
    this.element ??= this.enter();
    const isNew = this.order === null;
    if (isNew) this.order = [...this.members].sort(([, one], [, other]) => inOrder(one, other)).map(([key]) => key);
    const Kind = areAllDense || this.members.size > ROOMY ? DenseTiles : RoomyTiles;
    if (!(this.view instanceof Kind)) {
      this.view?.close();
      this.view = new Kind(plain(`${this.resource}, ${titleOf(this.numa)}`));
      this.element.append(this.view.element);
      this.view.show(this.order, this.order);
    } else this.view.show(isNew ? this.order : null, this.changed);
    this.changed.clear();
    const held = this.order.reduce((sum, key) => sum + (devices.get(key).holders.length > 0), 0);
    this.element.querySelector("h3 span").textContent = `${held} of ${this.order.length} held`;
  }

  enter() {
    const element = make("div", { role: "group", "aria-label": plain(`${this.resource}, ${titleOf(this.numa)}`) }, make("h3", {}, this.resource, make("span")));
    element.dataset.order = this.resource;
    element.dataset.group = this.id;
    insertSorted(panelOf(this.numa), element);
    return element;
  }

  leave() {
    groups.delete(this.id);
    this.view?.close();
    const panel = this.element?.parentElement;
    this.element?.remove();
    if (panel && !panel.querySelector("[role=group]")) panel.remove();
  }
}

function panelOf(numa) {
  const id = `numa-${numa}`;
  let panel = byId(id);
  if (!panel) {
    panel = make("section", { class: numa === "none" ? "numa wide" : "numa", id, "aria-label": titleOf(numa) }, make("h2", {}, titleOf(numa)));
    panel.dataset.order = numa === "none" ? "~" : `${numa.split(",").length} ${orderOf(numa)}`; // One node before two.
    insertSorted(byId("devices"), panel);
  }
  return panel;
}

function insertSorted(parent, child) {
  const next = [...parent.children].find((each) => each.dataset.order !== undefined && each.dataset.order > child.dataset.order);
  parent.insertBefore(child, next ?? null);
}

// Tiles with texts, each an element of its own.
class RoomyTiles {
  constructor() {
    this.element = make("div", { class: "tiles" });
    this.tiles = new Map();
    this.tail = TAIL;
  }

  show(order, changed) {
    let stale = changed;
    if (order) {
      this.lay(order);
      const tail = tailOf(order);
      if (tail !== this.tail) stale = order;
      this.tail = tail;
    }
    for (const key of stale) dress(this.tiles.get(key), devices.get(key), this.tail);
    this.element.style.setProperty("--letters", this.letters());
  }

  letters() {
    let most = NARROWEST;
    for (const key of this.tiles.keys()) for (const text of textsOf(devices.get(key))) most = Math.max(most, text.length);
    return Math.min(most, WIDEST);
  }

  lay(order) {
    const kept = new Set(order);
    for (const [key, tile] of this.tiles) {
      if (kept.has(key)) continue;
      this.tiles.delete(key);
      tile.remove();
    }
    let next = this.element.firstChild;
    for (const key of order) {
      let tile = this.tiles.get(key);
      if (tile && tile === next) {
        next = next.nextSibling;
        continue;
      }
      if (!tile) {
        tile = make("button", { type: "button", tabindex: "-1", "data-device": key });
        this.tiles.set(key, tile);
      }
      this.element.insertBefore(tile, next);
    }
    if (!this.element.querySelector("[tabindex='0']")) this.element.firstElementChild?.setAttribute("tabindex", "0");
  }

  dim() {
    for (const [key, tile] of this.tiles) tile.classList.toggle("dim", !matches(devices.get(key)));
  }

  focus(key) {
    goTo(this.tiles.get(key));
  }

  close() {
    this.element.remove();
  }
}

// IDs that begin alike for more letters than are seen are told apart by what follows.
function tailOf(order) {
  let [alike, longest, before] = [0, 0, ""];
  for (const key of order) {
    const { id } = devices.get(key);
    let at = 0;
    while (at < id.length && id[at] === before[at]) at += 1;
    [alike, longest, before] = [Math.max(alike, at), Math.max(longest, id.length), id];
  }
  return alike < WIDEST / 2 ? TAIL : Math.min(LONGEST_TAIL, Math.max(TAIL, longest - alike + 1));
}

function dress(tile, row, tail) {
  const classes = ["tile", row.health.state];
  if (row.holders.length) classes.push("held");
  if (row.releasing) classes.push("releasing");
  if (!matches(row)) classes.push("dim");
  tile.className = classes.join(" ");
  const label = describe(row);
  tile.setAttribute("aria-label", label);
  tile.title = label;
  const [id, ...lines] = textsOf(row);
  fill(tile, cut("b", {}, id, tail), ...lines.map((text, at) => cut("span", { class: row.holders.length && at < lines.length - 1 ? "pod" : "" }, text, 7)));
}

// The lines of a tile: the device, then the pod, whose name may take two lines, and its namespace.
function textsOf(row) {
  const [holder] = row.holders;
  if (!holder) return [row.id, row.releasing ? "being released" : row.health.state === "Healthy" ? "free" : row.health.reason || { Unknown: "of unknown health" }[row.health.state] || row.health.state];
  const others = row.holders.length > 1 ? ` and ${row.holders.length - 1} more` : "";
  return [row.id, ...twoLines(holder.pod || holder.uid), `${holder.namespace || "namespace not known"}${others}`];
}

// A name that is too long for a line, in two: the second begins behind a hyphen, and holds what a controller appended.
function twoLines(name) {
  if (name.length <= WIDEST) return [name];
  const least = name.length - WIDEST;
  const hyphen = name.indexOf("-", least - 1);
  const at = hyphen < 0 || hyphen > name.length - 6 ? least : hyphen + 1;
  return [name.slice(0, at), name.slice(at)];
}

function goTo(tile) {
  for (const each of tile.parentElement.querySelectorAll("[tabindex='0']")) each.setAttribute("tabindex", "-1");
  tile.setAttribute("tabindex", "0");
  tile.focus();
}

// One tile of a group can be reached with the tabulator key; the arrows go from there.
byId("devices").addEventListener("keydown", (event) => {
  const tile = event.target.closest(".tile");
  if (!tile) return;
  const all = [...tile.parentElement.children];
  const at = all.indexOf(tile);
  const columns = Math.max(1, all.findIndex((each) => each.offsetTop > all[0].offsetTop));
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -at, End: all.length - 1 - at }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  goTo(all[Math.min(all.length - 1, Math.max(0, at + step))]);
});
