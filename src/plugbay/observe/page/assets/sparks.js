// The last hour of a resource as a small picture: what was allocated, below what could be. Its width is always an hour.

import { make, minute, plain } from "./elements.js";

const HOUR_S = 3600;
const SPACE = "http://www.w3.org/2000/svg";

export function spark(name, known) {
  const now = Date.now() / 1000;
  const isYoung = known.length > 0 && known[0][0] > now - HOUR_S;
  return make("div", { class: "hour" }, picture(name, known, now), make("p", {},
    make("span", {}, "an hour ago"), isYoung ? make("span", {}, `seen since ${minute(known[0][0])}`) : null, make("span", {}, "now")));
}

function picture(name, known, now) {
  const drawn = shape("svg", { class: "spark", viewBox: "0 0 300 34", preserveAspectRatio: "none", role: "img" });
  drawn.setAttribute("aria-label", plain(`${name}, allocated in the last hour: ${known.map((each) => each[1]).slice(-12).join(", ")}`));
  if (!known.length) return drawn;
  const top = Math.max(1, ...known.map(([, ...each]) => Math.max(...each.map((count) => count ?? 0))));
  const x = (at) => Math.max(0, 300 * (1 - (now - at) / HOUR_S)).toFixed(1);
  const y = (value) => (32 - (30 * (value ?? 0)) / top).toFixed(1);
  const steps = (column) => known.flatMap((sample, number) => {
    const end = number + 1 < known.length ? known[number + 1][0] : now;
    return [`${x(sample[0])},${y(sample[column])}`, `${x(end)},${y(sample[column])}`];
  }).join(" ");
  const used = steps(1);
  drawn.append(
    shape("polygon", { class: "area", points: `${x(known[0][0])},34 ${used} 300,34` }),
    shape("polyline", { class: "most", points: steps(2) }), shape("polyline", { class: "used", points: used }));
  return drawn;
}

function shape(tag, attributes = {}) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

