// What users meet, live: a graph of the visits to the stack, as they come on the stream of the page.
"use strict";

const live = { begun: 0, points: [], marks: [], behind: 0, span: 300, drawn: 0 };
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const LEFT = 40, TOP = 3, BAND = 26, GAP = 9, HEIGHT = 90, BUCKET = 5;

function showVisits(told) {
  if (told.begun !== live.begun) live.points = [], live.drawn = 0;
  live.begun = told.begun;
  live.points.push(...told.points);
  live.points = live.points.filter(([at]) => at > told.now - told.span - BUCKET);
  live.marks = told.marks;
  live.span = told.span;
  live.behind = Date.now() / 1000 - told.now; // of the clock of the server
  const pages = [...new Set(told.pages)], more = pages.length > 1 ? ` and ${pages.length - 1} more` : "";
  byId("live").hidden = !pages.length;
  if (!pages.length) return;
  byId("live-what").textContent = `A user opens ${pages[0]}${more} about once a second.`;
  byId("live-what").title = pages.join(", ");
  byId("live-says").textContent = told.says;
  byId("live-last").textContent = told.pauses ? "No visits while a look is taken." : told.last ? `Last: ${told.last}.` : "";
  if (!live.drawn) drawVisits();
}

// It moves once a second, with reduced motion every five.
function drawVisits() {
  const now = Date.now() / 1000, place = byId("live");
  if (place.hidden || !place.clientWidth || (calm.matches && now - live.drawn < 5)) return;
  live.drawn = now;
  const drawing = place.querySelector("svg"), width = place.clientWidth, end = now - live.behind, begin = end - live.span;
  const x = (at) => LEFT + (width - LEFT - 2) * (at - begin) / live.span, shown = live.points.filter(([at]) => at >= begin);
  // A visit that failed is as high as the longest that was served: its time tells only when the user gave up.
  const longest = Math.max(0.05, ...shown.filter(([, , served]) => served).map(([, seconds]) => seconds)), low = TOP + 2 * BAND + GAP;
  const buckets = new Map();
  for (const [at, , served] of shown) {
    const which = Math.floor(at / BUCKET), [all, well] = buckets.get(which) ?? [0, 0];
    buckets.set(which, [all + 1, well + served]);
  }
  let well = "", ill = "", bars = "", late = "";
  for (const [which, [all, served]] of buckets) {
    const from = Math.max(LEFT, x(which * BUCKET)), to = Math.min(width - 2, x((which + 1) * BUCKET)), at = TOP + BAND * (1 - served / all);
    if (served) well += `M${from} ${TOP + BAND}V${at}H${to}V${TOP + BAND}Z`;
    if (served < all) ill += `M${from} ${TOP}H${to}V${at}H${from}Z`;
  }
  for (const [at, seconds, served] of shown) {
    if (served) bars += `M${x(at)} ${low}v${-Math.max(1, BAND * seconds / longest)}`;
    else late += `M${x(at)} ${low}v${-BAND}`;
  }
  const made = (name, facts, text = "") => {
    const one = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(facts)) one.setAttribute(key, value);
    one.textContent = text;
    return one;
  };
  const labels = [];
  let free = LEFT + 62; // where the next label has room
  const fell = live.marks.filter(([at]) => at >= begin), last = width - 34;
  for (const [at, what] of fell) {
    const place = x(at), text = what.startsWith("check") ? `check ${what.endsWith("repaired") ? "✓" : "✗"}` : what, room = 6.4 * text.length;
    labels.push(made("path", { d: `M${place} ${TOP}V${low}`, class: "fell" }));
    const from = Math.max(free, Math.min(place - room / 2, last - room));
    if (from > place || from + room > last) continue; // it would be beside its line
    labels.push(made("text", { x: from, y: HEIGHT - 3, class: "fell" }, text));
    free = from + room + 8;
  }
  drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  drawing.setAttribute("aria-label", `${byId("live-says").textContent}. ${fell.length
    ? `It fell: ${fell.map(([at, what]) => `${new Date(1000 * at).toLocaleTimeString()} ${what}`).join("; ")}.` : ""}`);
  drawing.replaceChildren(
    made("path", { d: `M${LEFT} ${TOP + BAND + .5}H${width - 2}M${LEFT} ${low + .5}H${width - 2}`, class: "axis" }),
    made("path", { d: well, class: "well" }), made("path", { d: ill, class: "ill" }),
    made("path", { d: bars, class: "took", "stroke-width": Math.max(1.5, (width - LEFT) / live.span * .7) }),
    made("path", { d: late, class: "late" }),
    made("text", { x: LEFT - 5, y: TOP + 9, class: "end" }, "100 %"), made("text", { x: LEFT - 5, y: TOP + BAND, class: "end" }, "0"),
    made("text", { x: LEFT - 5, y: TOP + BAND + GAP + 9, class: "end" }, `${Number(longest.toPrecision(2))} s`),
    made("text", { x: LEFT, y: HEIGHT - 3 }, `${live.span / 60} min ago`), made("text", { x: width - 2, y: HEIGHT - 3, class: "end" }, "now"),
    ...labels);
}
setInterval(drawVisits, 1000);
addEventListener("resize", () => { live.drawn = 0; drawVisits(); });
