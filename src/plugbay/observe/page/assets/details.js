// The dialog about a device, a pod, a plugin or a socket. It follows what changes, and keeps the focus.

import { address, addressed, behind, forget } from "./address.js";
import { byId, facts, fill, make, moment, plain } from "./elements.js";
import { stateOf } from "./cards.js";
import { eventsOf } from "./events.js";
import { devices, healthOf, holderOf, podKey, podOf, rejected, resources, sockets } from "./rows.js";

let shown = null;

const gone = (what) => make("p", { class: "empty" }, `${what} is not there any more.`);

function open(title, content) {
  const dialog = byId("detail");
  shown = () => {
    byId("detail-title").textContent = plain(title);
    fill(byId("detail-body"), ...content());
  };
  byId("detail-body").replaceChildren();
  byId("back").hidden = behind() === 0;
  shown();
  if (!dialog.open) dialog.showModal();
  else byId("detail-title").focus(); // What had the focus is gone.
}

export function showDetail() {
  shown?.();
}

const openers = { device: openDevice, pod: openPod, plugin: openPlugin, socket: openSocket };

export function openAddressed() {
  const view = addressed();
  if (view) openers[view.kind](view.name, view.resource);
  else byId("detail").close();
}

function go(kind, name, resource = "") {
  address({ kind, name, resource }, byId("detail").open);
  openers[kind](name, resource);
}

byId("detail").addEventListener("close", () => {
  shown = null;
  forget();
});
byId("detail").addEventListener("click", (event) => { if (event.target === byId("detail")) byId("detail").close(); });
byId("back").addEventListener("click", () => history.back());
window.addEventListener("popstate", openAddressed);

// Whatever names a device, a pod, a plugin or a socket opens it.
document.addEventListener("click", (event) => {
  const named = event.target.closest?.("[data-device], [data-pod], [data-plugin], [data-socket]");
  if (!named) return;
  const { device, pod, plugin, socket } = named.dataset;
  const row = devices.get(device);
  if (row) go("device", row.id, row.resourceName);
  else if (pod !== undefined) go("pod", linkOf(pod));
  else if (plugin !== undefined) go("plugin", plugin);
  else if (socket !== undefined) go("socket", socket);
});

const podLink = (holder) => make("button", { type: "button", "data-pod": podKey(holder) }, holderOf(holder));
const deviceLink = (key, row) => make("button", { type: "button", "data-device": key }, `${row.id} (${row.health.state})`);

function openDevice(id, resource) {
  open(id, () => {
    const row = devices.get(`d ${resource} ${id}`);
    const past = eventsOf((event) => event.resource === resource && event.device === id);
    return row ? [facts(deviceFacts(row)), past] : [gone("This device"), past];
  });
}

function deviceFacts(row) {
  const pairs = [
    ["Resource", make("button", { type: "button", "data-plugin": row.resourceName }, row.resourceName)], ["Health", healthOf(row)],
    ["Says", row.health.message], ["Since", moment(row.health.since)],
    ["NUMA nodes", row.numaNodes === null ? "not known" : row.numaNodes.join(", ") || "none"], ["Paths", row.hostPaths.join(", ")],
  ];
  for (const holder of row.holders) {
    pairs.push(["Held by", podLink(holder)], ["Held since", moment(holder.since) || "not known"], ["Requested by", holder.requestedBy]);
  }
  if (!row.holders.length) pairs.push(["Held by", row.releasing ? "no container; being released" : "no container"]);
  for (const sentence of row.disagreements) pairs.push(["Sources disagree", sentence]);
  return pairs;
}

function socketFacts(row) {
  return [["Socket", row.name], ["Socket made", moment(row.made)], ["Listening", stateOf(row)]];
}

function openSocket(name) {
  open(name, () => {
    const row = sockets.get(name);
    const past = eventsOf((event) => event.socket === name);
    const note = make("p", { class: "empty" }, "A plugin makes its socket right before it registers. This kubelet does not tell which resource it serves.");
    return row ? [facts(socketFacts(row)), note, past] : [gone("This socket"), past];
  });
}

function openPlugin(name) {
  open(`Plugin of ${name}`, () => {
    const row = resources.get(name);
    if (!row) return [gone("This resource")];
    const plugin = row.plugin ?? {};
    const socket = sockets.get(plugin.socket);
    const count = (number) => (number === null ? "unknown" : String(number));
    return [
      facts([
        ["State", plugin.state ?? "not known: this kubelet does not tell, and the plugin has no status page that was named"],
        ["Since", moment(plugin.since)], ["Because", plugin.reason ?? ""],
        ["Registrations", String(plugin.registrations ?? "")], ["Open streams", String(plugin.openStreams ?? "")],
        ...(socket ? socketFacts(socket) : [["Socket", plugin.socket ?? ""]]),
        ["Devices", `${count(row.capacity)}, of which ${count(row.allocatable)} allocatable`],
      ]),
      ...(plugin.life?.length ? [life(plugin.life)] : [
        make("p", { class: "empty" }, "No registration of it is known: only a node or a plugin of plugbay tells."),
        eventsOf((event) => event.socket === (plugin.socket || null) || (event.resource === name && event.kind === "plugin")),
      ]),
    ];
  });
}

// Registrations and streams, the newest first, as the node or the plugin tells them.
function life(moments) {
  return make("div", {}, make("h3", {}, "Registrations and streams"), make("ol", { class: "events", id: "life" }, ...[...moments].reverse().map((each) =>
    make("li", { class: "plugin" }, make("div", {}, each.text,
      make("p", {}, make("time", { datetime: each.time }, moment(each.time)), each.socket ? make("span", {}, each.socket) : null))))));
}

function* heldByPods() {
  for (const row of devices.values()) yield* row.holders;
}

const knownPods = () => [...heldByPods(), ...rejected.values()];

// In the address a pod has its namespace and name, and its UID only where another one has the same name.
function linkOf(key) {
  const known = knownPods();
  const pod = known.find((each) => podKey(each) === key);
  return !pod || known.some((each) => podOf(each) === podOf(pod) && podKey(each) !== key) ? key : podOf(pod);
}

function podOfLink(link) {
  const known = knownPods();
  return known.find((pod) => podKey(pod) === link) ?? known.find((pod) => podOf(pod) === link);
}

function refusal(row) {
  return row ? [facts([["Refused", row.reason], ["Because", row.message], ["Since", moment(row.time)]])] : [];
}

function openPod(link) {
  let pod = podOfLink(link);
  let given = [];
  let asked = null;
  const content = () => {
    pod = podOfLink(pod ? podKey(pod) : link) ?? pod;
    if (!pod) return [gone("This pod")];
    const [key, name, { uid }] = [podKey(pod), podOf(pod), pod];
    const held = [...devices].filter(([, row]) => row.holders.some((holder) => podKey(holder) === key));
    const question = [uid, ...held.map(([device]) => device)].join("\n");
    if (question !== asked) {
      asked = question;
      read(uid);
    }
    const list = held.length ? facts(held.map(([device, row]) => [row.resourceName, deviceLink(device, row)])) : make("p", { class: "empty" }, "It holds none.");
    return [facts([["UID", uid || "not known"]]), ...refusal(rejected.get(uid)), make("h3", {}, "Devices"), list, make("div", {}, ...given.map((each) => each.cloneNode(true))), eventsOf((event) => event.pod === name)];
  };
  const read = async (uid) => {
    given = [make("p", { class: "empty" }, uid ? "Reading what its containers were given …" : "What its containers were given is found by its UID, which no source tells.")];
    if (!uid) return;
    const question = asked;
    const answer = await whatWasGiven(uid);
    if (question !== asked) return; // a newer question is under way
    given = answer;
    if (shown === mine) showDetail();
  };
  open(`Pod ${pod ? podOf(pod) : link}`, content);
  const mine = shown;
}

async function whatWasGiven(uid) {
  try {
    const answer = await (await fetch(`pods/${encodeURIComponent(uid)}`)).json();
    if (answer.problem) return [make("p", {}, answer.problem)];
    return answer.given.length ? answer.given.map(givenEntry) : [make("p", { class: "empty" }, "The checkpoint has nothing of it.")];
  } catch (error) {
    return [make("p", {}, `The node's answer cannot be read: ${error.message}`)];
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
