// Pictures of small tiles, one for each state of a device: filled for held, its shape for its health.

const made = new Map();
let colours = null;

const names = ["free", "free-line", "held", "sick", "unsure", "card", "ink"];

export function forgetSprites() {
  made.clear();
  colours = null;
}

export function sprite(row, cell, dot, scale) {
  const state = `${row.health.state} ${row.holders.length > 0} ${row.releasing} ${cell} ${scale}`;
  let picture = made.get(state);
  if (!picture) {
    picture = drawn(row, cell, dot, scale);
    made.set(state, picture);
  }
  return picture;
}

function drawn(row, cell, dot, scale) {
  if (!colours) {
    const style = getComputedStyle(document.documentElement);
    colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`)]));
  }
  const picture = document.createElement("canvas");
  picture.width = picture.height = Math.ceil(cell * scale);
  const context = picture.getContext("2d");
  context.scale(scale, scale);
  const isHeld = row.holders.length > 0;
  const { state } = row.health;
  const line = state === "Unhealthy" ? 2.5 : 1.5;
  context.lineWidth = line;
  const path = outline(state, cell / 2, dot / 2 - line / 2);
  const colour = state === "Unhealthy" ? colours.sick : colours.held;
  context.fillStyle = isHeld ? colour : state === "Unhealthy" ? colours.card : colours.free;
  context.strokeStyle = state === "Unhealthy" ? colours.sick : state === "Unknown" ? colours.unsure : isHeld ? colours.held : colours["free-line"];
  context.fill(path);
  if (row.releasing) hatch(context, path, cell);
  if (state === "Unknown") context.setLineDash([3, 2]);
  context.stroke(path);
  return picture;
}

function outline(state, middle, reach) {
  const path = new Path2D();
  if (state === "Unknown") path.arc(middle, middle, reach, 0, 2 * Math.PI);
  else if (state === "Unhealthy") {
    path.moveTo(middle, middle - reach);
    for (const [x, y] of [[reach, 0], [0, reach], [-reach, 0]]) path.lineTo(middle + x, middle + y);
    path.closePath();
  } else path.roundRect(middle - reach, middle - reach, 2 * reach, 2 * reach, 4);
  return path;
}

function hatch(context, path, cell) {
  context.save();
  context.clip(path);
  context.strokeStyle = colours.ink;
  context.globalAlpha = 0.45;
  context.beginPath();
  for (let x = -cell; x < cell; x += 5) {
    context.moveTo(x, cell);
    context.lineTo(x + cell, 0);
  }
  context.stroke();
  context.restore();
}
