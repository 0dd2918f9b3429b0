// The roster: the trainer's table, and the projector view without names.
"use strict";

if (typeof byId === "undefined") setTimeout(() => location.reload(), 1000); // common.js was dropped

let told = null, heard = 0;

function minutes(seat) {
  const runs = seat.state === "red" && !told.paused;
  return clock(seat.seconds + (runs ? (Date.now() - heard) / 1000 : 0));
}

function state(seat) {
  const ended = seat.ended.length ? `${seat.ended.join(" and ")} ended: start the lab over` : "";
  const more = seat.doing || ended || seat.why;
  if (seat.state === "amber" && more) return more; // it says that it is repaired, and when it is looked at again
  return more ? `${seat.word}: ${more}` : seat.word;
}

function button(text, act) {
  const made = element("button", { type: "button" }, text);
  made.addEventListener("click", async () => {
    made.disabled = true; // a double click counts once
    await act();
    made.disabled = false;
  });
  return made;
}

function row(seat) {
  const at = `/trainer/seat/${seat.seat}`;
  const said = seat.answer.map((one) => `${one.component}, ${one.resource}, ${one.cause}`).join("; ");
  const answer = said ? `${seat.answers}: ${said}` : "0";
  const name = element("td", { class: "name" }, seat.name);
  name.append(...raised(seat));
  if (seat.refused) name.append(element("span", { class: "amiss" }, ` (refused ${seat.refused} times)`));
  return element("tr", { id: `seat-${seat.seat}` },
    element("td", {}, element("a", { href: `/seat/${seat.seat}`, target: "_blank", rel: "noopener" }, String(seat.seat))),
    name,
    element("td", {}, `${seat.lab} (${seat.turn} of ${seat.turns})`),
    element("td", { class: seat.state }, state(seat)),
    element("td", { class: "minutes" }, minutes(seat)),
    element("td", {}, String(seat.checks)), element("td", {}, String(seat.hints)),
    element("td", {}, answer), element("td", {}, String(seat.points)),
    element("td", {}, ...(told.ended ? [] : [
      button("start over", () => confirm(`Start ${seat.name}'s lab over?`) && press(`${at}/restore`)),
      ...(seat.last ? [] : [button("next lab", () => confirm(`Next lab for ${seat.name}?`) && press(`${at}/next`))]),
      button("hint", () => chooseHint(seat.seat)),
      button("link", () => link(seat, "link")),
      button("new link", () => confirm(`The present link of ${seat.name} will stop working.`) && link(seat, "new-link")),
    ])));
}

async function link(seat, act) {
  const answer = await press(`/trainer/seat/${seat.seat}/${act}`);
  if (!answer) return;
  say(`${seat.name}: ${answer.link}`, true);
  if (!navigator.clipboard) return; // a browser has one on a page over TLS, or of this machine
  byId("message").append(" ", button("copy", () => navigator.clipboard.writeText(answer.link).then(() => say(`The link of ${seat.name} is copied.`, true))));
}

function tile(seat) {
  return element("div", { class: `tile ${seat.state}` },
    element("p", { class: "number" }, String(seat.seat)),
    element("p", {}, seat.word),
    element("p", { class: "quiet" }, `lab ${seat.turn} of ${seat.turns} · ${minutes(seat)} · ${seat.hints} hint${seat.hints === 1 ? "" : "s"}`));
}

// The open block: its title, its clock, and how many are done. The projector has the same in large type.
function showBlock(now) {
  const it = now.block, next = byId("open-block");
  byId("block").hidden = !it || now.ended;
  if (!it) return;
  byId("block-title").textContent = it.number ? `${it.title}` : `First block: ${it.next}`;
  byId("block-count").textContent = !it.number ? (next ? `${it.ready} of ${it.seats} seats are ready.` : "")
    : it.pause ? (next ? `Ready for the next block: ${it.ready} of ${it.seats}.` : "")
    : `${it.repaired} of ${it.labs} repaired`;
  if (!next) return;
  if (it.number && !it.pause) byId("block-count").textContent += `, ${it.done} of ${it.seats} seats done; ready for the next block: ${it.ready}.`;
  next.hidden = !it.next || now.ended;
  next.textContent = it.number ? `Open the next block: ${it.next}` : `Begin: ${it.next}`;
  byId("timetable").querySelector("tbody").replaceChildren(...now.blocks.map((one) => element("tr", { class: one.state },
    ...[one.begins, one.title, String(one.minutes), one.labs + (one.blind ? " (blind)" : "") || one.note, one.state].map((text) => element("td", {}, text)))));
}

// On the projector: the repairs of a class without blocks, the last line to all, and the end.
function showWhole(now) {
  const final = now.final;
  byId("whole").hidden = Boolean(now.block) || now.ended;
  byId("whole").querySelector("p").textContent = `${now.repaired} of ${now.labs} repaired`;
  byId("line").hidden = !now.line;
  byId("line").replaceChildren(...(now.line ? [element("span", { class: "quiet" }, `From ${now.line.sender}: `), now.line.text] : []));
  byId("final").hidden = !final;
  byId("wall").hidden = Boolean(final);
  const facts = JSON.stringify(final);
  if (!final || byId("final").dataset.facts === facts) return;
  byId("final").dataset.facts = facts;
  const count = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;
  byId("final").replaceChildren(
    element("p", { class: "large" }, `${now.repaired} of ${now.labs} repaired`),
    element("p", {}, `${count(now.seats.length, "seat")}, ${count(final.checks, "check")}, ${count(final.hints, "hint")}.`),
    ...(final.ranking.length ? [element("ol", { class: "ranking" }, ...final.ranking.map((one) =>
      element("li", { value: one.place }, `${one.name}: ${count(one.points, "point")}, ${one.repaired} repaired`)))] : []),
    ...(final.farewell ? [element("p", { class: "farewell" }, final.farewell)] : []));
}

function blockClock() {
  const day = byId("time");
  if (day) day.textContent = timeOfDay(Date.now());
  const it = told?.block;
  if (!it) return;
  if (it.left === null) { byId("block-clock").textContent = ""; return; }
  const left = it.left - (it.runs ? (Date.now() - heard) / 1000 : 0);
  const until = it.runs && left >= 0 ? ` · until ${timeOfDay(Date.now() + 1000 * left)}` : "";
  byId("block-clock").textContent = left >= 0 ? `${clock(left)} left${until}` : `${clock(-left)} over time`;
  byId("block-clock").classList.toggle("amiss", left < 0);
}

byId("open-block")?.addEventListener("click", async (event) => {
  const it = told.block, left = it.number && !it.pause ? ` ${it.seats - it.done} of ${it.seats} seats are not done; their labs end some minutes later.` : "";
  if (!confirm(`${event.target.textContent}?${left}`)) return;
  event.target.disabled = true; // a double click counts once
  await press("/trainer/open", { block: it.number + 1 });
  event.target.disabled = false;
});

function show(now) {
  told = now; heard = Date.now();
  showBlock(now);
  if (byId("roster")) showMaster(now); else showWhole(now);
  byId("state").textContent = now.ended ? "ended" : now.paused ? "paused" : "";
  draw();
  for (const one of document.querySelectorAll("[data-class]")) {
    one.hidden = now.ended || (one.dataset.class === "pause" && now.paused) || (one.dataset.class === "resume" && !now.paused);
  }
}

function timeOfDay(moment) {
  return new Date(moment).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
}

let drawn = "";
function draw() {
  if (!told) return;
  blockClock();
  const table = byId("roster");
  const still = JSON.stringify(told.seats.map((seat) => ({ ...seat, seconds: 0, hand: seat.hand !== null })));
  if (table && still === drawn) { // update only the clocks, so that no button moves under a click
    for (const seat of told.seats) byId(`seat-${seat.seat}`).querySelector(".minutes").textContent = minutes(seat);
    return;
  }
  drawn = still;
  if (table) table.querySelector("tbody").replaceChildren(...told.seats.map(row));
  else byId("wall").replaceChildren(...told.seats.map(tile));
}
setInterval(draw, 1000);

for (const one of document.querySelectorAll("[data-class]")) {
  one.addEventListener("click", () => {
    if (one.dataset.class === "end" && !confirm("End the class? All stacks are removed; the results stay.")) return;
    press(`/trainer/${one.dataset.class}`);
  });
}
listen(document.body.dataset.events, show);
