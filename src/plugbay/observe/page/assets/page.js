// The live page of a node: tiles, figures, history and details, from rows that the server sends as they change.
"use strict";

const ROOMY = 160; // A group with more devices than this gets small tiles without text.
const SLICE_MS = 12; // Work longer than this is continued in a later turn, so that the page stays smooth.
const HOUR_S = 3600;

const rows = new Map();
const samples = new Map();
const events = [];
const tiles = new Map();
const byId = (id) => document.getElementById(id);
let query = "";
let shownDetail = null;

// --- elements --------------------------------------------------------------------------------------------------------

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.addEventListener("click", value);
    else if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null).map((child) => (typeof child === "string" ? plain(child) : child)));
  return element;
}

// Control characters and changes of direction are shown, as texts come from plugins and pods.
function plain(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, (each) => `\\u${each.codePointAt(0).toString(16).padStart(4, "0")}`);
}

function age(since, now = Date.now() / 1000) {
  if (since === null || since === undefined) return "";
  const seconds = Math.max(0, Math.round(now - since));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

const clock = (at) => new Date(at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const podOf = (holder) => (holder.pod ? `${holder.namespace}/${holder.pod}` : holder.uid);
const holderOf = (holder) => `${podOf(holder)}/${holder.container}`;
const kindOf = (key) => key.split(" ", 1)[0];

function* rowsOf(kind) {
  for (const [key, row] of rows) if (kindOf(key) === kind) yield [key, row];
}

async function inSlices(items, work) {
  let began = performance.now();
  for (const item of items) {
    work(item);
    if (performance.now() - began > SLICE_MS) {
      await new Promise((done) => setTimeout(done));
      began = performance.now();
    }
  }
}

// --- tiles -----------------------------------------------------------------------------------------------------------

function groupKey(row) {
  return row.numa === null || row.numa.length === 0 ? "none" : row.numa.join(",");
}

function groupTitle(key) {
  if (key === "none") return "Without a NUMA node";
  return key.includes(",") ? `NUMA nodes ${key}` : `NUMA node ${key}`;
}

function describe(row) {
  const parts = [row.id, row.resource, row.reason ? `${row.health}: ${row.reason}` : row.health];
  if (row.isReleasing) parts.push("being released");
  parts.push(row.holders.length ? `held by ${row.holders.map(holderOf).join(" and ")}` : "free");
  return plain(parts.join(", "));
}

function dress(tile, row) {
  const classes = ["tile", row.health];
  if (row.holders.length) classes.push("held");
  if (row.isReleasing) classes.push("releasing");
  if (query && !matches(row)) classes.push("dim");
  tile.className = classes.join(" ");
  const label = describe(row);
  tile.setAttribute("aria-label", label);
  tile.title = label;
  const holder = row.holders[0];
  const words = holder ? podOf(holder) : row.isReleasing ? "being released" : row.health === "Healthy" ? "free" : row.reason || row.health;
  tile.firstChild.textContent = plain(row.id);
  tile.lastChild.textContent = plain(words);
}

function matches(row) {
  if (!row) return false; // It has gone while tiles were searched.
  const words = [row.id, row.resource, row.reason, row.health, ...row.paths, ...row.holders.map(holderOf)];
  return words.some((word) => word.toLowerCase().includes(query));
}

function panelOf(numa) {
  const id = `numa-${numa}`;
  let panel = byId(id);
  if (!panel) {
    panel = make("section", { class: numa === "none" ? "numa wide" : "numa", id, "aria-label": groupTitle(numa) }, make("h2", {}, groupTitle(numa)));
    panel.dataset.order = numa === "none" ? "~" : numa.padStart(6, "0");
    insertSorted(byId("devices"), panel);
  }
  return panel;
}

function insertSorted(parent, child) {
  const next = [...parent.children].find((each) => each.dataset.order !== undefined && each.dataset.order > child.dataset.order);
  parent.insertBefore(child, next ?? null);
}

function groupOf(row) {
  const numa = groupKey(row);
  const panel = panelOf(numa);
  let group = [...panel.children].find((each) => each.dataset.order === row.resource);
  if (!group) {
    group = make("div", { role: "group", "aria-label": plain(`${row.resource}, ${groupTitle(numa)}`) },
      make("h3", {}, row.resource, make("span")), make("div", { class: "tiles" }));
    group.dataset.order = row.resource;
    insertSorted(panel, group);
  }
  return group;
}

const natural = new Intl.Collator("en", { numeric: true });

function place(key, row) {
  const group = groupOf(row);
  const list = group.lastChild;
  let tile = tiles.get(key);
  if (tile && tile.parentElement === list) return dress(tile, row);
  if (tile) leave(tile);
  tile ??= make("button", { type: "button", tabindex: "-1", onclick: () => showDevice(key) }, make("b"), make("small"));
  tile.dataset.key = key;
  tile.dataset.id = row.id;
  tiles.set(key, tile);
  dress(tile, row);
  const last = list.lastElementChild;
  if (!last || natural.compare(last.dataset.id, row.id) < 0) list.append(tile);
  else list.insertBefore(tile, [...list.children].find((each) => natural.compare(each.dataset.id, row.id) > 0) ?? null);
}

function leave(tile) {
  const group = tile.parentElement?.parentElement;
  tile.remove();
  if (!group || group.lastChild.children.length) return;
  const panel = group.parentElement;
  group.remove();
  if (!panel.querySelector("[role=group]")) panel.remove();
}

function settleGroups() {
  for (const group of document.querySelectorAll("#devices [role=group]")) {
    const list = group.lastChild;
    list.classList.toggle("many", list.children.length > ROOMY);
    const held = list.getElementsByClassName("held").length;
    group.querySelector("h3 span").textContent = `${held} of ${list.children.length} held`;
    if (!list.querySelector("[tabindex='0']")) list.firstElementChild?.setAttribute("tabindex", "0");
  }
  const empty = byId("no-devices");
  if (!tiles.size && !empty) byId("devices").append(make("p", { id: "no-devices", class: "empty" }, "No plugin has offered a device here yet."));
  else if (tiles.size) empty?.remove();
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
  const next = all[Math.min(all.length - 1, Math.max(0, at + step))];
  tile.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
});

// --- figures, resources, plugins, events ---------------------------------------------------------------------------------

function showFigures() {
  let held = 0;
  let sick = 0;
  const pods = new Set();
  for (const [, row] of rowsOf("d")) {
    if (row.holders.length) held += 1;
    if (row.health === "Unhealthy") sick += 1;
    for (const holder of row.holders) pods.add(podOf(holder));
  }
  const figures = [
    [tiles.size, "devices"], [held, "held"], [tiles.size - held, "not held"], [sick, "unhealthy", sick ? "bad" : ""],
    [pods.size, "pods with devices"], [[...rowsOf("r")].length, "resources"],
  ];
  byId("figures").replaceChildren(...figures.map(([count, label, more = ""]) =>
    make("div", { class: `figure ${more}` }, make("b", {}, String(count)), make("span", {}, label))));
}

function count(number) {
  return number === null ? "unknown" : String(number);
}

function showResources() {
  const list = [...rowsOf("r")].map(([, row]) => row).sort((one, other) => natural.compare(one.name, other.name));
  byId("resources").replaceChildren(...list.map(resourceCard));
  if (!list.length) byId("resources").append(make("p", { class: "empty" }, "None yet."));
  byId("plugins").replaceChildren(...list.map(pluginLine), ...[...strangers(list)].map(socketLine));
  if (!byId("plugins").children.length) byId("plugins").append(make("li", { class: "empty" }, "No socket of a plugin is there."));
}

function resourceCard(row) {
  const most = row.capacity ?? row.allocatable ?? row.allocated;
  const used = make("i");
  const sick = make("i", { class: "sick" });
  used.style.width = `${most ? (100 * row.allocated) / most : 0}%`;
  sick.style.width = `${most ? (100 * row.unhealthy) / most : 0}%`;
  return make("div", { class: "resource" },
    make("div", { class: "name" }, make("span", {}, row.name), make("span", {}, `${row.allocated} / ${count(row.allocatable)}`)),
    make("div", { class: "bar", "aria-hidden": "true" }, used, sick),
    make("div", { class: "more" },
      make("span", {}, `capacity ${count(row.capacity)}`), make("span", {}, `allocatable ${count(row.allocatable)}`),
      make("span", {}, `allocated ${row.allocated}`), make("span", {}, `free ${count(row.free)}`),
      row.unhealthy ? make("span", {}, `unhealthy ${row.unhealthy}`) : null),
    spark(row));
}

const space = "http://www.w3.org/2000/svg";

function spark(row) {
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("class", "spark");
  picture.setAttribute("viewBox", "0 0 300 34");
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("role", "img");
  const known = samples.get(row.name) ?? [];
  picture.setAttribute("aria-label", plain(`allocated in the last hour: ${known.map((each) => each[1]).slice(-12).join(", ")}`));
  const now = Date.now() / 1000;
  const window_s = Math.min(HOUR_S, Math.max(60, known.length ? now - known[0][0] : 0));
  const span = document.createElementNS(space, "title");
  span.textContent = `allocated in the last ${Math.round(window_s / 60)} min`;
  picture.append(span);
  const top = Math.max(1, ...known.map(([, ...counts]) => Math.max(...counts.map((each) => each ?? 0))));
  const x = (at) => Math.max(0, 300 * (1 - (now - at) / window_s));
  const y = (value) => 32 - (30 * (value ?? 0)) / top;
  const steps = (column) => {
    const points = known.flatMap((sample, number) => {
      const end = number + 1 < known.length ? known[number + 1][0] : now;
      return [`${x(sample[0]).toFixed(1)},${y(sample[column]).toFixed(1)}`, `${x(end).toFixed(1)},${y(sample[column]).toFixed(1)}`];
    });
    return points.join(" ");
  };
  const line = (points, name) => {
    const shape = document.createElementNS(space, name === "area" ? "polygon" : "polyline");
    shape.setAttribute("points", points);
    shape.setAttribute("class", name);
    return shape;
  };
  if (known.length) {
    const used = steps(1);
    picture.append(line(`${x(known[0][0]).toFixed(1)},34 ${used} 300,34`, "area"), line(steps(2), "most"), line(used, "used"));
  }
  return picture;
}

function pluginLine(row) {
  const state = row.plugin?.state || "not known";
  const since = row.plugin?.since ? ` for ${age(row.plugin.since)}` : "";
  return make("li", {}, make("button", { type: "button", onclick: () => showPlugin(row.name) }, row.name), make("span", {}, ` ${state}${since}`));
}

function* strangers(list) {
  const known = new Set(["kubelet.sock", ...list.map((row) => row.plugin?.socket)]);
  for (const [, row] of rowsOf("s")) if (!known.has(row.name)) yield row;
}

function socketLine(row) {
  const state = row.isListening ? `process ${row.pid || "unknown"} listens ${row.command}` : "nothing listens";
  return make("li", {}, make("code", {}, row.name), make("span", {}, ` ${row.problem || state}`));
}

function showEvents() {
  const newest = events.slice(-200).reverse();
  byId("events").replaceChildren(...newest.map((event) =>
    make("li", { class: event.kind },
      make("div", {}, event.text, event.resource ? make("span", {}, ` ${event.resource}`) : null),
      make("time", { datetime: new Date(event.at * 1000).toISOString() }, clock(event.at)))));
  if (!newest.length) byId("events").append(make("li", { class: "empty" }, "Nothing since the page's server started."));
}

function showNode() {
  const node = rows.get("node");
  if (!node) return;
  byId("root").textContent = plain(node.root);
  const sentences = [...node.problems];
  const notes = byId("notes");
  notes.hidden = !sentences.length;
  notes.replaceChildren(...sentences.map((sentence) => make("p", {}, sentence)));
}

function showLegend() {
  const kinds = [["Healthy", "free"], ["Healthy held", "held by a pod"], ["Unhealthy", "unhealthy"], ["Unknown", "health not known"], ["Healthy releasing", "being released"]];
  byId("legend").replaceChildren(...kinds.map(([classes, label]) => make("span", {}, make("i", { class: `tile ${classes}` }), label)));
}

// --- details ---------------------------------------------------------------------------------------------------------

function open(title, what, ...content) {
  shownDetail = what;
  byId("detail-title").textContent = plain(title);
  byId("detail-body").replaceChildren(...content);
  if (!byId("detail").open) byId("detail").showModal();
}

function facts(pairs) {
  return make("dl", {}, ...pairs.filter(([, value]) => value !== "" && value !== null).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

function podLink(holder) {
  return make("button", { type: "button", onclick: () => showPod(holder.uid, podOf(holder)) }, holderOf(holder));
}

function showDevice(key) {
  const row = rows.get(key);
  if (!row) return byId("detail").close();
  const pairs = [
    ["Resource", row.resource], ["Health", row.reason ? `${row.health}: ${row.reason}` : row.health], ["Says", row.message],
    ["Since", row.since ? `${new Date(row.since * 1000).toLocaleString()} (${age(row.since)})` : ""],
    ["NUMA nodes", row.numa === null ? "not known" : row.numa.join(", ") || "none"], ["Paths", row.paths.join(", ")],
  ];
  for (const holder of row.holders) {
    pairs.push(["Held by", podLink(holder)], ["Held since", holder.since ? `${new Date(holder.since * 1000).toLocaleString()} (${age(holder.since)})` : "not known"], ["Requested by", holder.requestedBy]);
  }
  if (!row.holders.length) pairs.push(["Held by", row.isReleasing ? "no container; being released" : "no container"]);
  for (const sentence of row.disagreements) pairs.push(["Sources disagree", sentence]);
  open(row.id, () => showDevice(key), facts(pairs), history((event) => event.resource === row.resource && event.device === row.id));
}

function history(isWanted) {
  const wanted = events.filter(isWanted).slice(-20).reverse();
  if (!wanted.length) return make("p", { class: "empty" }, "Nothing happened to it in the last hour.");
  return make("div", {}, make("h3", {}, "In the last hour"), make("ol", { class: "events" }, ...wanted.map((event) =>
    make("li", { class: event.kind }, make("div", {}, event.text), make("time", {}, clock(event.at))))));
}

function showPlugin(name) {
  const row = rows.get(`r ${name}`);
  if (!row) return byId("detail").close();
  const plugin = row.plugin;
  const socket = plugin?.socket ? rows.get(`s ${plugin.socket}`) : null;
  const listens = socket ? (socket.isListening ? `process ${socket.pid || "unknown"} ${socket.command}` : "nothing") : "";
  open(`Plugin of ${name}`, () => showPlugin(name), facts([
    ["State", plugin?.state ?? "not known: this kubelet does not tell, and the plugin has no status page that was named"],
    ["Since", plugin?.since ? `${new Date(plugin.since * 1000).toLocaleString()} (${age(plugin.since)})` : ""], ["Because", plugin?.reason ?? ""],
    ["Socket", plugin?.socket ?? ""], ["Socket made", socket?.made ? new Date(socket.made * 1000).toLocaleString() : ""], ["Listening", listens],
    ["Devices", `${count(row.capacity)}, of which ${count(row.allocatable)} allocatable`],
  ]), history((event) => event.resource === name && event.kind === "plugin"));
}

async function showPod(uid, name) {
  const held = [...rowsOf("d")].filter(([, row]) => row.holders.some((holder) => holder.uid === uid));
  const list = () => make("div", {}, make("h3", {}, "Devices"), facts(held.map(([key, row]) =>
    [row.resource, make("button", { type: "button", onclick: () => showDevice(key) }, `${row.id} (${row.health})`)])));
  const given = make("div", {}, make("p", { class: "empty" }, "Reading what its containers were given …"));
  open(`Pod ${name}`, () => {}, facts([["UID", uid]]), list(), given, history((event) => event.pod === name));
  try {
    const answer = await (await fetch(`pods/${encodeURIComponent(uid)}`)).json();
    given.replaceChildren(...(answer.problem ? [make("p", {}, answer.problem)] : answer.given.map(givenEntry)));
    if (!answer.problem && !answer.given.length) given.replaceChildren(make("p", { class: "empty" }, "The checkpoint has nothing of it."));
  } catch (error) {
    given.replaceChildren(make("p", {}, `The node's answer cannot be read: ${error.message}`));
  }
}

function givenEntry(entry) {
  const code = (text) => make("code", {}, text);
  const pairs = [["Devices", entry.devices.join(", ")]];
  if (entry.problem) pairs.push(["Problem", entry.problem]);
  for (const [name, value] of Object.entries(entry.env ?? {})) pairs.push(["Variable", code(`${name}=${value}`)]);
  for (const node of entry.nodes ?? []) pairs.push(["Device node", code(`${node.from} → ${node.to} (${node.permissions})`)]);
  for (const mount of entry.mounts ?? []) pairs.push(["Mount", code(`${mount.from} → ${mount.to}${mount.isReadOnly ? " (read only)" : ""}`)]);
  for (const [name, value] of Object.entries(entry.annotations ?? {})) pairs.push(["Annotation", code(`${name}=${value}`)]);
  for (const device of entry.cdi ?? []) pairs.push(["CDI device", code(device)]);
  return make("div", {}, make("h3", {}, `Given to container ${entry.container} for ${entry.resource}`), facts(pairs));
}

byId("detail").addEventListener("close", () => { shownDetail = null; });
byId("detail").addEventListener("click", (event) => { if (event.target === byId("detail")) byId("detail").close(); });

// --- the doctor ------------------------------------------------------------------------------------------------------

byId("examine").addEventListener("click", async () => {
  const place = byId("findings");
  place.replaceChildren(make("p", { class: "empty" }, "Examining …"));
  try {
    const answer = await (await fetch("doctor.json")).json();
    const missing = answer.incomplete.length;
    const summary = `${answer.checks} checks, ${answer.findings.length} findings${missing ? `, and ${missing} checks could not see everything` : ""}.`;
    place.replaceChildren(make("p", { class: "empty" }, answer.well ? `The node is well: ${answer.checks} checks.` : summary), ...answer.findings.map(findingEntry));
  } catch (error) {
    place.replaceChildren(make("p", {}, `The node's answer cannot be read: ${error.message}`));
  }
});

function findingEntry(finding) {
  return make("div", { class: `finding ${finding.severity}` },
    make("b", {}, `${finding.severity} ${finding.id}: ${finding.what}`),
    ...finding.evidence.map((line) => make("p", {}, make("code", {}, line))), make("p", {}, `Why: ${finding.cause}`), make("p", {}, `To do: ${finding.remedy}`));
}

// --- search and theme ------------------------------------------------------------------------------------------------

let searching = 0;
byId("search").addEventListener("input", () => {
  query = byId("search").value.trim().toLowerCase();
  const turn = (searching += 1);
  inSlices([...tiles], ([key, tile]) => {
    if (turn === searching) tile.classList.toggle("dim", query !== "" && !matches(rows.get(key)));
  });
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, dialog")) {
    event.preventDefault();
    byId("search").focus();
  }
});
byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
});

// --- what the server sends -------------------------------------------------------------------------------------------

let working = Promise.resolve();

function take(change, isWhole) {
  working = working.then(() => apply(change, isWhole)).catch((error) => console.error(error)); // The next one may do.
}

async function apply(change, isWhole) {
  if (isWhole) {
    const kept = new Set(change.put.map(([key]) => key));
    change.gone = [...rows.keys()].filter((key) => !kept.has(key));
    samples.clear();
    for (const [name, known] of Object.entries(change.samples)) samples.set(name, known);
    events.length = 0;
  }
  const now = Date.now() / 1000;
  for (const key of change.gone) {
    rows.delete(key);
    const tile = tiles.get(key);
    if (tile) { tiles.delete(key); leave(tile); }
  }
  await inSlices(sorted(change.put), ([key, row]) => {
    rows.set(key, row);
    if (kindOf(key) === "d") place(key, row);
    else if (kindOf(key) === "r" && !isWhole) addSample(row, now);
  });
  events.push(...change.events);
  events.splice(0, Math.max(0, events.length - 500));
  settleGroups();
  showNode();
  showFigures();
  showResources();
  showEvents();
  shownDetail?.();
  document.documentElement.dataset.ready = "true";
}

// Devices in their order, so that most tiles are put behind the last one.
function sorted(put) {
  return put.length < 2 ? put : put.map((each) => [each[1].id ?? "", each]).sort(([one], [other]) => natural.compare(one, other)).map(([, each]) => each);
}

function addSample(row, at) {
  const known = samples.get(row.name) ?? [];
  known.push([at, row.allocated, row.allocatable, row.capacity]);
  while (known.length > 1 && known[1][0] < at - HOUR_S) known.shift();
  samples.set(row.name, known);
}

function connect() {
  const source = new EventSource("events");
  const live = byId("live");
  source.addEventListener("open", () => { live.textContent = "live"; live.classList.add("on"); });
  source.addEventListener("error", () => {
    const isOver = source.readyState === EventSource.CLOSED; // Refused, as by a node that has started anew with another token.
    live.textContent = isOver ? "refused: the node's log has its address" : "connection lost, trying again";
    live.classList.remove("on");
  });
  source.addEventListener("state", (event) => take(JSON.parse(event.data), true));
  source.addEventListener("change", (event) => take(JSON.parse(event.data), false));
}

showLegend();
setInterval(() => { if (!document.hidden) { showResources(); shownDetail?.(); } }, 30000);
connect();
