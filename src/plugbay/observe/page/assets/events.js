// What happened in the last hour.

import { byId, clock, fill, make } from "./elements.js";
import { node } from "./rows.js";

const SHOWN = 200;

export function showEvents() {
  const newest = node.events.slice(-SHOWN).reverse();
  const lines = newest.map((event) => line(event, event.resource));
  fill(byId("events"), ...(lines.length ? lines : [make("li", { class: "empty" }, "Nothing since the page's server started.")]));
}

export function eventsOf(isWanted) {
  const wanted = node.events.filter(isWanted).slice(-20).reverse();
  if (!wanted.length) return make("p", { class: "empty" }, "Nothing happened to it in the last hour.");
  return make("div", {}, make("h3", {}, "In the last hour"), make("ol", { class: "events" }, ...wanted.map((event) => line(event))));
}

function line(event, about = "") {
  return make("li", { class: event.kind, "data-key": String(event.serial) },
    make("div", {}, event.text, make("p", {}, make("time", { datetime: new Date(event.at * 1000).toISOString() }, clock(event.at)), about ? make("span", {}, about) : null)));
}
