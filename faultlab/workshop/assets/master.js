// The game master on the trainer's page: surprises by hand, those to come, prepared hints, raised hands.
"use strict";

const surprise = () => byId("surprise").elements;

// Fill a list without losing what is chosen.
function fillList(list, options) {
  const facts = JSON.stringify(options);
  if (list.dataset.facts === facts) return;
  list.dataset.facts = facts;
  const chosen = list.value;
  list.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
  if (options.some(([value]) => value === chosen)) list.value = chosen;
}

function showKind(now) {
  const { kind, seat, hint } = surprise();
  for (const field of document.querySelectorAll("#surprise .of")) field.hidden = !field.classList.contains(kind.value);
  for (const name of ["message", "fault", "hint"]) surprise()[name].required = kind.value === name;
  fillList(seat, [...(kind.value === "hint" ? [] : [["", "all seats"]]), ...now.seats.map((one) => [String(one.seat), one.name])]);
  const its = now.seats.find((one) => String(one.seat) === seat.value);
  fillList(hint, (its?.prepared ?? []).map((one) => [String(one.number), `${one.number}: ${one.text}`]));
  byId("no-room").hidden = kind.value !== "fault" || now.faults.length > 0;
}

function outcome(one) {
  const parts = [one.there ? `there at ${one.there}` : "", one.pending ? `coming at ${one.pending}` : "", ...one.not];
  return parts.filter(Boolean).join("; ");
}

function showMaster(now) {
  byId("master").hidden = now.ended;
  if (now.ended) return;
  const { fault, decoy } = surprise();
  fillList(fault, now.faults.map((id) => [id, id]));
  fillList(decoy, now.decoys.map((one) => [one.id, `${one.id}: ${one.title}`]));
  showKind(now);
  byId("surprises").hidden = !now.surprises.length;
  const facts = JSON.stringify(now.surprises), body = byId("surprises").querySelector("tbody");
  if (body.dataset.facts === facts) return; // no button moves under a click
  body.dataset.facts = facts;
  body.replaceChildren(...now.surprises.map((one) => element("tr", {},
    element("td", {}, one.state === "fired" ? new Date(1000 * one.t).toLocaleTimeString([], { hourCycle: "h23" }) : one.when),
    element("td", {}, one.text), element("td", {}, one.seats.join(", ") || "all seats"),
    element("td", { class: one.not.length ? "amiss" : "" }, outcome(one)),
    element("td", {}, ...(one.state === "waiting" ? [button("call off", () => press("/trainer/call-off", { id: one.id }))] : [])))));
}

// Choose a prepared hint for a seat.
function chooseHint(number) {
  const { kind, seat, hint } = surprise();
  byId("master").open = true;
  kind.value = "hint";
  showKind(told);
  seat.value = String(number);
  showKind(told);
  hint.focus();
}

// A raised hand, with how long it has been up.
function raised(seat) {
  const at = `/trainer/seat/${seat.seat}/hand`;
  return seat.hand === null ? [] : [element("span", { class: "hand" }, ` ✋ hand up for ${clock(seat.hand)} `), button("seen", () => press(at, { up: false }))];
}

byId("surprise").addEventListener("input", () => told && showKind(told));
byId("surprise").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { kind, seat, hint, message, sender, minutes } = surprise(), what = kind.value, send = event.submitter;
  const all = !seat.value, whom = seat.selectedOptions[0]?.textContent;
  if (what === "fault" && all && !confirm("A second fault for all seats?")) return;
  if (send) send.disabled = true; // a double click counts once
  const facts = what === "message" ? { message: message.value, sender: sender.value } : { [what]: surprise()[what].value };
  const done = what === "hint" ? await press(`/trainer/seat/${seat.value}/hint`, { number: Number(hint.value) })
    : await press("/trainer/surprise", { ...facts, minutes: Number(minutes.value), ...(all ? {} : { seat: Number(seat.value) }) });
  if (send) send.disabled = false;
  if (!done) return;
  say(what === "hint" ? `${whom} has the hint.` : Number(minutes.value) ? "It is set for later." : `Sent to ${whom}.`, true);
  message.value = "";
  minutes.value = "0";
});
