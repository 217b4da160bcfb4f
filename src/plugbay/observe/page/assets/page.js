// The live page of a node: takes what the server sends as it changes, and shows it at most once in a frame.

import { showFigures, showLegend, showLive, showNode, showPlugins, showRejected, showResources } from "./cards.js";
import { redrawAll } from "./dense.js";
import { openAddressed, showDetail } from "./details.js";
import "./doctor.js";
import { byId } from "./elements.js";
import { showEvents } from "./events.js";
import { devices, drop, keys, node, note, put, remember, resources, sample, search } from "./rows.js";
import { forgetSprites } from "./sprites.js";
import { follow } from "./stream.js";
import { dimTiles, dropTile, focusFirstMatch, found, putTile, showTiles } from "./tiles.js";

const AGES_MS = 30000;

// --- what the server sends -------------------------------------------------------------------------------------------

let stale = null; // The keys of before, while a whole state comes in; null once it has come.

function take(rows) {
  for (const [key, row] of rows) {
    stale?.delete(key);
    put(key, row);
    if (key[0] === "d") putTile(key, row);
    else if (key[0] === "r" && stale === null) sample(row, Date.now() / 1000);
  }
}

function takeAway(gone) {
  for (const key of gone) {
    drop(key);
    dropTile(key);
  }
}

const taken = {
  state(content) {
    stale = new Set(keys());
    remember(content);
    take(content.put);
  },
  more(content) {
    take(content.put);
  },
  live() {
    takeAway(stale ?? []);
    stale = null;
    show();
  },
  change(content) {
    takeAway(content.gone);
    take(content.put);
    note(content.events);
    show();
  },
};

// --- showing it ------------------------------------------------------------------------------------------------------

let frame = 0;
let isUnopened = true; // What the address names is opened once the node is known.

function show() {
  if (stale === null) frame ||= requestAnimationFrame(showAll);
}

function showAll() {
  frame = 0;
  for (const part of [showNode, showLive, showFigures, showTiles, showResources, showRejected, showPlugins, showEvents, showFound, showDetail]) {
    try {
      part();
    } catch (error) {
      console.error(error); // The other parts go on.
    }
  }
  document.documentElement.dataset.ready = "true";
  if (isUnopened && node.row) {
    isUnopened = false;
    openAddressed();
  }
}

// --- search and theme ------------------------------------------------------------------------------------------------

function showFound() {
  byId("found").textContent = search.query ? `${found()} of ${devices.size} found` : "";
}

byId("search").addEventListener("input", () => {
  search.query = byId("search").value.trim().toLowerCase();
  dimTiles();
  showFound();
});
byId("search").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !search.query) return;
  event.preventDefault(); // Else the same key would press the tile that has the focus then.
  focusFirstMatch();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, dialog")) {
    event.preventDefault();
    byId("search").focus();
  }
});

const darkness = matchMedia("(prefers-color-scheme: dark)");

function recolour() {
  forgetSprites();
  redrawAll();
}

darkness.addEventListener("change", recolour);
byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : darkness.matches;
  root.dataset.theme = isDark ? "light" : "dark";
  recolour();
});

showLegend();
setInterval(() => {
  if (document.hidden || !resources.size) return;
  showResources();
  showRejected();
  showPlugins();
  showDetail();
}, AGES_MS);
follow((name, data) => taken[name](JSON.parse(data)), showLive);
