// The last hour of a resource as a small picture: what was allocated, below what could be.

import { plain } from "./elements.js";

const HOUR_S = 3600;
const SPACE = "http://www.w3.org/2000/svg";

export function spark(name, known) {
  const now = Date.now() / 1000;
  const window_s = Math.min(HOUR_S, Math.max(60, known.length ? now - known[0][0] : 0));
  const picture = shape("svg", { class: "spark", viewBox: "0 0 300 34", preserveAspectRatio: "none", role: "img" });
  picture.setAttribute("aria-label", plain(`${name}, allocated in the last hour: ${known.map((each) => each[1]).slice(-12).join(", ")}`));
  const title = shape("title");
  title.textContent = `allocated in the last ${Math.round(window_s / 60)} min`;
  picture.append(title);
  if (!known.length) return picture;
  const top = Math.max(1, ...known.map(([, ...each]) => Math.max(...each.map((count) => count ?? 0))));
  const x = (at) => Math.max(0, 300 * (1 - (now - at) / window_s)).toFixed(1);
  const y = (value) => (32 - (30 * (value ?? 0)) / top).toFixed(1);
  const steps = (column) => known.flatMap((sample, number) => {
    const end = number + 1 < known.length ? known[number + 1][0] : now;
    return [`${x(sample[0])},${y(sample[column])}`, `${x(end)},${y(sample[column])}`];
  }).join(" ");
  const used = steps(1);
  picture.append(
    shape("polygon", { class: "area", points: `${x(known[0][0])},34 ${used} 300,34` }),
    shape("polyline", { class: "most", points: steps(2) }), shape("polyline", { class: "used", points: used }));
  return picture;
}

function shape(tag, attributes = {}) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

