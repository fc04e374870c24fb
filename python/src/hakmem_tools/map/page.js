// SPDX-License-Identifier: Apache-2.0 OR MIT
// hakmem map: draws the picture in the page. What it shows is the JSON in the element "data"
// (hakmem map --json); it loads nothing. page.py puts both into one file.
"use strict";

const CELL = 9, GAP = 1, MARGIN = 3;
const SLOTS = 32, SLOT_BYTES = 65536;
const STATES = {
  large: ["#3465a4", "large block"],
  sampled: ["#729fcf", "a sampled block of a size class, by itself"],
  transition: ["#e0a000", "between two states"],
  empty: ["#c8c8c0", "empty: free, its pages are kept"],
  unused: ["transparent", "unused: free, no pages"],
  unmapped: ["transparent", "not mapped"],
  retired: ["#98989055", "the whole superslab is kept"],
  huge: ["#204a87", "huge block"],
  waiting: ["#888", "freed huge block"],
};
const picture = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit++;
  }
  return `${bytes.toFixed(unit === 0 || Math.abs(bytes) >= 999.5 ? 0 : 1)} ${units[unit]}`;
}

function duration(ns) {
  const seconds = ns / 1e9;
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  return seconds < 7200 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(0)} h`;
}

const hex = (address) => `0x${address.toString(16)}`;
const owner = (heap) => (heap === null ? "" : picture.owners[heap] ?? `heap ${heap}`);

const classes = [...new Set(picture.superslabs.flatMap((s) =>
  s.slots.filter((slot) => slot.state === "class").map((slot) => slot.class_bytes)))]
  .sort((a, b) => a - b);
const owners = [...new Set(picture.superslabs.flatMap((s) =>
  s.slots.filter((slot) => slot.owner !== null).map((slot) => slot.owner)))]
  .sort((a, b) => a - b);
const oldest = Math.max(1, ...picture.superslabs.flatMap((s) =>
  s.slots.map((slot) => slot.age_ns ?? 0)));

const hue = (index) => (index * 137.5) % 360; // neighbours differ most
const WAYS = {
  class: {
    colour: (slot) => `hsl(${hue(classes.indexOf(slot.class_bytes))} 60% 50%)`,
    legend: () => classes.map((bytes, i) => [`hsl(${hue(i)} 60% 50%)`, `${bytes} bytes`]),
  },
  fill: {
    colour: (slot) => `hsl(${120 * slot.fill} 70% 45%)`,
    legend: () => [0, 0.25, 0.5, 0.75, 1].map((f) =>
      [`hsl(${120 * f} 70% 45%)`, `${100 * f} % of the slab is live`]),
  },
  owner: {
    colour: (slot) => `hsl(${hue(owners.indexOf(slot.owner))} 60% 50%)`,
    legend: () => owners.map((heap, i) =>
      [`hsl(${hue(i)} 60% 50%)`, `heap ${heap} ${owner(heap)}`]),
  },
  age: {
    colour: () => "#7a9a7a",
    legend: () => [0, 0.5, 1].map((a) => [ageColour(a * oldest),
      `empty or kept for ${duration(a * oldest)}`]),
  },
};

function ageColour(ns) {
  return `hsl(${40 - 40 * (ns / oldest)} 85% ${75 - 35 * (ns / oldest)}%)`;
}

function colourOf(slot, way) {
  if (way === "age" && slot.age_ns !== null) return ageColour(slot.age_ns);
  return slot.state === "class" ? WAYS[way].colour(slot) : STATES[slot.state][0];
}

// Superslabs from the top to the bottom, then the next column.
function layOut(list) {
  const columns = Math.max(1, Math.floor((byId("picture").clientWidth - 2 * MARGIN) /
    (SLOTS * CELL + 4 * CELL)));
  const rows = Math.ceil(list.length / columns);
  return list.map((superslab, i) => ({
    superslab,
    x: MARGIN + Math.floor(i / rows) * (SLOTS * CELL + 4 * CELL),
    y: MARGIN + (i % rows) * (CELL + 2 * GAP),
  }));
}

let places = [];

function drawSuperslab(context, place, way) {
  const { superslab, x, y } = place;
  const cells = superslab.slots.length ? superslab.slots : Array(SLOTS).fill(null);
  cells.forEach((slot, i) => {
    const state = slot === null ? superslab.state : slot.state;
    const left = x + i * CELL, high = CELL - GAP;
    context.strokeStyle = "#8886";
    context.strokeRect(left + 0.5, y + 0.5, high, high);
    context.fillStyle = slot === null ? STATES[state][0] : colourOf(slot, way);
    const full = state === "class" && way !== "fill" ? Math.max(slot.fill, 0.12) : 1;
    context.fillRect(left, y + high * (1 - full), high, high * full);
  });
  return cells.length;
}

function draw() {
  const way = byId("way").value;
  const pins = new Set(picture.pins.map((pin) => pin.address));
  const list = byId("pinned").checked
    ? picture.superslabs.filter((s) => pins.has(s.address)) : picture.superslabs;
  places = layOut(list);
  const canvas = byId("canvas"), scale = window.devicePixelRatio || 1;
  const width = byId("picture").clientWidth;
  const height = Math.max(...places.map((p) => p.y), 0) + CELL + 2 * MARGIN;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const drawn = places.reduce((sum, place) => sum + drawSuperslab(context, place, way), 0);
  document.body.dataset.drawn = String(drawn);
  drawLegend(way);
}

function drawLegend(way) {
  const there = new Set(picture.superslabs.flatMap((s) =>
    s.slots.length ? s.slots.map((slot) => slot.state) : [s.state]));
  const lines = [...WAYS[way].legend(),
    ...Object.entries(STATES).filter(([state]) => there.has(state)).map(([, line]) => line)];
  byId("legend").replaceChildren(...lines.map(([colour, text]) => {
    const item = document.createElement("li");
    const box = document.createElement("i");
    box.style.background = colour;
    item.append(box, text);
    return item;
  }));
}

function describe(superslab, slot, number) {
  const head = `superslab ${hex(superslab.address)}, ${size(superslab.resident_bytes)} resident`;
  if (slot === null) return `${head}\n${STATES[superslab.state][1]}, ` +
    `${size(superslab.superslabs * SLOTS * SLOT_BYTES)}`;
  const lines = [head, `slot ${number}, ${size(slot.resident_bytes)} resident`];
  if (slot.state === "class")
    lines.push(`class of ${slot.class_bytes} bytes: ${slot.live_blocks} of ${slot.blocks} blocks ` +
      "live", `heap ${slot.owner} ${owner(slot.owner)}`);
  else lines.push(STATES[slot.state][1]);
  if (slot.state === "sampled") lines.push(`${slot.class_bytes} bytes`);
  if (slot.age_ns !== null) lines.push(`for ${duration(slot.age_ns)}`);
  return lines.join("\n");
}

function point(event) {
  const box = byId("canvas").getBoundingClientRect(), tip = byId("tip");
  const x = event.clientX - box.left, y = event.clientY - box.top;
  const place = places.find((p) => x >= p.x && x < p.x + SLOTS * CELL && y >= p.y && y < p.y + CELL);
  tip.hidden = place === undefined;
  if (place === undefined) return;
  const number = Math.floor((x - place.x) / CELL);
  tip.textContent = describe(place.superslab, place.superslab.slots[number] ?? null, number);
  tip.style.left = `${event.pageX + 12}px`;
  tip.style.top = `${event.pageY + 12}px`;
}

function fillTable(id, lines) {
  byId(id).replaceChildren(...lines.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map((text) => {
      const cell = document.createElement("td");
      cell.textContent = text;
      return cell;
    }));
    return row;
  }));
}

function summarise() {
  const counts = picture.superslab_counts, slots = picture.slot_counts;
  fillTable("summary", [
    ["resident", size(picture.resident_bytes)],
    ["in live blocks", size(picture.live_bytes)],
    ["superslabs in use slot by slot", counts.slots],
    ["superslabs kept for later", counts.retired],
    ["superslabs in huge blocks", counts.huge],
    ["slots of size classes", slots.class ?? 0],
    ["slots of large blocks", slots.large ?? 0],
    ["empty slots", slots.empty ?? 0],
    ["unused slots", slots.unused ?? 0],
  ].map((line) => line.map(String)));
  fillTable("pins", picture.pins.map((pin) => [hex(pin.address), size(pin.live_bytes),
    size(pin.resident_bytes), pin.holders.join(", "), pin.sites.join("\n")]));
  byId("nopins").hidden = picture.pins.length > 0;
}

summarise();
draw();
byId("way").addEventListener("change", draw);
byId("pinned").addEventListener("change", draw);
byId("canvas").addEventListener("mousemove", point);
byId("canvas").addEventListener("mouseleave", () => { byId("tip").hidden = true; });
window.addEventListener("resize", draw);
document.body.dataset.ready = "yes";
