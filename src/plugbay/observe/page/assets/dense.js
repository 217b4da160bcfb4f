// Thousands of devices: small tiles, drawn on canvases of which only those in sight are there. For keyboards and screen
// readers it is a list box with one option, the tile at which the cursor is.

import { make } from "./elements.js";
import { describe, devices, matches } from "./rows.js";
import { sprite } from "./sprites.js";

const BAND_ROWS = 24;
const NEAR = "400px"; // Canvases so near to what is in sight are drawn in advance.
const DIM = 0.18;

const views = new Set();
let made = 0;

export class DenseTiles {
  constructor(label) {
    made += 1;
    this.order = [];
    this.at = 0;
    this.columns = 0;
    this.bands = [];
    this.cursor = make("div", { class: "cursor", role: "option", id: `cursor-${made}`, "aria-selected": "true" });
    this.element = make("div", { class: "dense", role: "listbox", tabindex: "0", "aria-label": label, "aria-activedescendant": this.cursor.id }, this.cursor);
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("click", (event) => this.click(event));
    this.element.addEventListener("pointermove", (event) => this.point(event));
    this.sized = new ResizeObserver(() => requestAnimationFrame(() => this.lay()));
    this.sized.observe(this.element);
    this.seen = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => this.see(target, isIntersecting)), { rootMargin: NEAR });
    views.add(this);
  }

  show(order, changed) {
    if (order) {
      const kept = this.order[this.at];
      this.order = order;
      this.places = new Map(order.map((key, place) => [key, place]));
      this.at = this.places.get(kept) ?? Math.min(this.at, order.length - 1);
      this.lay(true);
    } else for (const key of changed) this.paint(this.places.get(key));
    this.moveCursor();
  }

  dim() {
    for (const band of this.bands) this.draw(band);
  }

  focus(key) {
    this.element.focus({ preventScroll: true });
    this.goTo(this.places.get(key));
  }

  close() {
    this.sized.disconnect();
    this.seen.disconnect();
    this.element.remove();
    views.delete(this);
  }

  // --- where things are ------------------------------------------------------------------------------------------------

  lay(isAnew = false) {
    const style = getComputedStyle(this.element);
    const cell = Number.parseFloat(style.getPropertyValue("--cell"));
    const columns = Math.max(1, Math.floor(this.element.clientWidth / cell));
    if (!isAnew && columns === this.columns && cell === this.cell) return;
    this.cell = cell;
    this.dot = Number.parseFloat(style.getPropertyValue("--dot"));
    this.columns = columns;
    const rows = Math.ceil(this.order.length / columns);
    this.element.style.height = `${rows * cell}px`;
    const wanted = Math.ceil(rows / BAND_ROWS);
    while (this.bands.length > wanted) {
      const band = this.bands.pop();
      this.seen.unobserve(band.canvas);
      band.canvas.remove();
    }
    while (this.bands.length < wanted) {
      const band = { number: this.bands.length, canvas: make("canvas", { "aria-hidden": "true" }), isSeen: false };
      band.canvas.band = band;
      this.bands.push(band);
      this.element.append(band.canvas);
      this.seen.observe(band.canvas);
    }
    for (const band of this.bands) {
      band.canvas.style.top = `${band.number * BAND_ROWS * cell}px`;
      band.canvas.style.width = `${columns * cell}px`;
      band.canvas.style.height = `${Math.min(BAND_ROWS, rows - band.number * BAND_ROWS) * cell}px`;
      this.draw(band);
    }
    this.moveCursor();
  }

  see(canvas, isSeen) {
    const band = canvas.band;
    if (band.isSeen === isSeen) return;
    band.isSeen = isSeen;
    if (isSeen) this.draw(band);
    else canvas.width = canvas.height = 0; // Its memory is free.
  }

  // --- drawing ---------------------------------------------------------------------------------------------------------

  draw(band) {
    if (!band.isSeen) return;
    const scale = devicePixelRatio;
    const first = band.number * BAND_ROWS * this.columns;
    const last = Math.min(this.order.length, first + BAND_ROWS * this.columns);
    const rows = Math.ceil((last - first) / this.columns);
    band.canvas.width = Math.ceil(this.columns * this.cell * scale);
    band.canvas.height = Math.ceil(rows * this.cell * scale);
    for (let place = first; place < last; place += 1) this.stamp(band, place, scale);
  }

  paint(place) {
    const band = this.bands[Math.floor(place / this.columns / BAND_ROWS)];
    if (band?.isSeen && band.canvas.width) this.stamp(band, place, devicePixelRatio);
  }

  stamp(band, place, scale) {
    const row = devices.get(this.order[place]);
    const size = this.cell * scale;
    const x = (place % this.columns) * size;
    const y = (Math.floor(place / this.columns) - band.number * BAND_ROWS) * size;
    const context = band.canvas.getContext("2d");
    context.clearRect(x, y, size, size);
    context.globalAlpha = matches(row) ? 1 : DIM;
    context.drawImage(sprite(row, this.cell, this.dot, scale), x, y);
  }

  // --- keyboard and pointer --------------------------------------------------------------------------------------------

  moveCursor() {
    const row = devices.get(this.order[this.at]);
    if (!row || !this.columns) return;
    const gap = (this.cell - this.dot) / 2;
    const { style } = this.cursor;
    style.left = `${(this.at % this.columns) * this.cell + gap}px`;
    style.top = `${Math.floor(this.at / this.columns) * this.cell + gap}px`;
    style.width = style.height = `${this.dot}px`;
    this.cursor.setAttribute("aria-label", describe(row));
    this.cursor.setAttribute("aria-posinset", this.at + 1);
    this.cursor.setAttribute("aria-setsize", this.order.length);
    this.cursor.dataset.device = this.order[this.at];
  }

  goTo(place) {
    this.at = Math.min(this.order.length - 1, Math.max(0, place));
    this.moveCursor();
    this.cursor.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    const page = this.columns * 10;
    const step = {
      ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns, PageDown: page, PageUp: -page,
      Home: -this.at, End: this.order.length - 1 - this.at,
    }[event.key];
    if (step !== undefined) this.goTo(this.at + step);
    else if (event.key === "Enter" || event.key === " ") this.cursor.click();
    else return;
    event.preventDefault();
  }

  placeAt(event) {
    const { left, top } = this.element.getBoundingClientRect();
    const column = Math.floor((event.clientX - left) / this.cell);
    const place = Math.floor((event.clientY - top) / this.cell) * this.columns + column;
    return column >= 0 && column < this.columns && place < this.order.length ? place : -1;
  }

  click(event) {
    if (event.target === this.cursor) return; // It opens what it is at, as any element that names a device.
    const place = this.placeAt(event);
    if (place < 0) return;
    this.goTo(place);
    this.cursor.click();
  }

  point(event) {
    const place = this.placeAt(event);
    const text = place < 0 ? "" : describe(devices.get(this.order[place]));
    if (this.element.title !== text) this.element.title = text;
  }
}

export function redrawAll() {
  for (const view of views) view.dim();
}
