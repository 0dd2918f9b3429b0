// The page of a participant: ticket, terminals, hints, check, answer, debrief.
"use strict";

if (typeof byId === "undefined") setTimeout(() => location.reload(), 1000); // common.js was dropped

const seat = document.body.dataset.seat;
const CHOOSE = "Start a lab: it sets up a small service and gives you a ticket. Find the cause in the terminals, repair it, and press Check.";
const HEADS = ["start", "lab", "what its users report", "minutes", "level", "done", "time", "hints", "failed checks"];
let told = null, heard = 0, turnShown = 0, wasState = "", saidLast = "";
let left = null; // what had the focus before its button was disabled
const terminals = new Map();

function show(now) {
  const finished = told && !told.debrief && now.debrief;
  const checked = told && told.turn === now.turn && now.checks > told.checks;
  const hinted = told && told.turn === now.turn && now.hints.length > told.hints.length;
  told = now; heard = Date.now();
  const solo = Boolean(now.catalogue), name = solo ? now.title || "Choose a lab" : now.name;
  document.title = `${name}: ${now.class}`;
  byId("class").textContent = solo && now.lab ? `${now.class} · ${now.lab}` : now.class;
  byId("name").textContent = name;
  const mark = byId("state");
  mark.textContent = now.ended ? "ended" : now.paused ? "paused" : solo && now.state === "waiting" ? "" : now.word;
  mark.className = `verdict ${now.state}`;
  byId("turn").textContent = solo ? (now.title ? "" : CHOOSE) : `Lab ${now.turn} of ${now.turns}${now.title ? `: ${now.title}` : ""}.`;
  const news = now.doing ? [`${now.doing} …`, now.delay].filter(Boolean).join(" ")
    : now.state === "failed" ? (solo ? now.why : `There is no lab here. ${now.why} Tell your trainer.`)
    : now.state === "waiting" && now.why ? now.why
    : now.state === "amber" && !now.paused && !now.ended ? "It is repaired, and looked at again in a few minutes: that counts. You can go on reading; the next lab comes after it."
    : now.ended ? "The class has ended."
    : now.paused ? "The class is paused: clocks are stopped, and what you type is ignored." : "";
  if (news) say(news, now.doing || now.state !== "failed");
  else if (byId("message").textContent === saidLast) say(""); // what a button has said remains
  saidLast = news;

  setHtml(byId("ticket"), now.ticket);
  const open = !now.paused && !now.ended;
  const can = open && (now.state === "red" || (now.state === "green" && !now.debrief) || (now.state === "amber" && now.blind));
  document.querySelector("[data-act=give-up]").hidden = Boolean(now.debrief) || now.state === "amber";
  document.querySelector("[data-act=check]").hidden = now.state === "amber";
  byId("host").closest("details").hidden = !open || !now.daemons.length;
  byId("states").hidden = !Object.keys(now.states).length;
  byId("advice").hidden = !now.advice;
  byId("advice").textContent = now.advice;
  byId("states").textContent = Object.entries(now.states).map(([daemon, state]) => `${daemon}: ${state}`).join(", ");
  byId("acts").hidden = !can;
  for (const button of document.querySelectorAll("button[data-act], form button")) button.disabled = Boolean(now.doing) || pressed;
  const hint = document.querySelector("[data-act=hint]");
  hint.hidden = !now.hint_left || Boolean(now.debrief) || now.state === "amber";
  hint.textContent = now.next_cost ? `Hint (costs ${now.next_cost} point${now.next_cost === 1 ? "" : "s"})` : "Hint (free)";
  byId("next").hidden = !(now.debrief || now.state === "failed") || now.state === "amber" || now.last || now.ended;
  showPages(now); showForm(now); showFindings(now); showHints(now); showDebrief(now); showCatalogue(now); showWhatIsNext(now);
  showTerminals(now);
  const desk = document.querySelector(".desk").classList; // the lesson gets more room than the terminals
  if (desk.contains("told") !== Boolean(now.debrief)) { desk.toggle("told"); fitTerminals(); }
  tick();
  if (finished) showResult();
  else if (checked) { byId("findings").scrollIntoView({ block: "nearest" }); focusOn(byId("verdict")); }
  else if (hinted) byId("hints").querySelector("li:last-child").scrollIntoView({ block: "nearest" });
  if (left && !now.doing && !pressed) { focusOn(left); left = null; }
}

// A browser takes the focus from a button that is disabled, at once or soon. Give it back, unless it is elsewhere by now.
function focusOn(place) {
  const at = document.activeElement;
  if (at === document.body || at.disabled || (at.dataset.act === "check" && place !== left)) place.focus({ preventScroll: true });
}

// The result is above what has been pressed, so bring it into view, and a screen reader to it.
function showResult() {
  byId("next").parentElement.scrollIntoView();
  byId("debrief").querySelector("h2").focus({ preventScroll: true });
}

function setHtml(place, html) {
  if (place.dataset.html === html) return; // keep the scroll position and the selection
  place.dataset.html = html;
  place.innerHTML = html;
}

// The rows of the form, one for each fault of an answer.
function faults() {
  return [...byId("diagnose").querySelectorAll(".fault")];
}

function showForm(now) {
  const form = byId("diagnose");
  form.hidden = !now.blind || Boolean(now.debrief);
  const daemons = byId("host").elements.daemon;
  if ([...daemons.options].map((one) => one.value).join() !== now.daemons.join()) {
    daemons.replaceChildren(...now.daemons.map((name) => element("option", { value: name }, name)));
  }
  if (now.turn !== turnShown || now.state === "waiting") byId("host").reset(); // values of the lab before
  const stopped = now.daemons.find((name) => now.states[name]?.startsWith("exited"));
  if (stopped && daemons.dataset.stopped !== stopped) daemons.value = stopped;
  daemons.dataset.stopped = stopped ?? "";
  const words = JSON.stringify([now.turn, now.terms]);
  if (form.dataset.words !== words) { // another lab begins without the answer of the one before
    form.dataset.words = words;
    faults().slice(1).forEach((row) => row.remove());
    form.elements.sure.value = "";
    for (const list of faults()[0].querySelectorAll("select")) {
      list.replaceChildren(element("option", { value: "" }, "…"), ...Object.entries(now.terms[list.name] ?? {}).map(([word, means]) =>
        element("option", { value: word }, means ? `${word}: ${means}` : word)));
    }
  }
  byId("one-more").hidden = !now.several || faults().length >= 3;
  byId("answer").textContent = now.answer.length
    ? `Your answer: ${now.answer.map((one) => `${one.component}, ${one.resource}, ${one.cause}`).join("; ")}${now.sure === null ? "" : ` (${now.sure}% sure)`}.${now.state === "green" || now.state === "amber" ? "" : " Now repair it, and check."}`
    : now.state === "amber" ? "Answer what it was meanwhile."
    : now.state === "green" ? "It is repaired. Answer what it was, and the debrief opens." : "";
}

function showFindings(now) {
  byId("findings").hidden = !now.verdict;
  byId("findings").querySelector("tbody").replaceChildren(...now.findings.map((found) => element("tr", {},
    element("td", {}, found.name),
    element("td", { "data-head": "measured" }, whole(`${number(found.value)} ${found.unit}`.trim())),
    element("td", { "data-head": "wanted" }, whole(found.wanted)),
    element("td", { "data-head": "ok", class: found.holds ? "green" : "red" }, found.holds ? "yes" : "NO"))));
  const said = [...new Set(now.findings.map((found) => found.says).filter(Boolean)), ...now.popular];
  const list = byId("findings").querySelector("ul");
  list.hidden = !said.length;
  list.replaceChildren(...said.map((text) => element("li", {}, text)));
  byId("findings").querySelector(".wide").hidden = !now.findings.length;
  byId("verdict").textContent = now.verdict;
  byId("why").textContent = now.state !== "failed" ? now.why : "";
}

// Keep a number and its unit on one line.
function whole(text) {
  return text.replace(/(\d) (?=\S)/g, "$1\u00a0");
}

function number(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(3))) : String(value);
}

// What a shift on this machine has paged, the newest first.
function showPages(now) {
  const place = byId("pages"), pages = now.pages ?? [];
  place.hidden = !pages.length;
  const facts = JSON.stringify(pages);
  if (place.dataset.facts === facts) return;
  const before = JSON.parse(place.dataset.facts ?? "[]").length;
  place.dataset.facts = facts;
  const open = pages.filter((page) => !page.over).length;
  place.replaceChildren(element("h2", {}, `On call: ${open || "no"} open page${open === 1 ? "" : "s"}`), ...pages.map((page) => {
    const text = element("div", {}), at = new Date(1000 * page.t).toLocaleTimeString();
    text.innerHTML = page.ticket;
    return element("details", { open: !page.over }, element("summary", {}, `${at} · page ${page.number}${page.over ? " · users are served again" : ""}`), text);
  }));
  if (pages.length > before) say(`Page ${pages[0].number}: see On call.`, true);
}

function showHints(now) {
  byId("hints").hidden = now.hints.length === 0;
  setHtml(byId("hints").querySelector("ol"), now.hints.map((html) => `<li>${html}</li>`).join(""));
}

// The labs that a learner can choose from, by track, and what they have done.
function showCatalogue(now) {
  const place = byId("catalogue"), idle = now.state === "waiting" && !now.doing;
  place.hidden = !now.catalogue;
  if (!now.catalogue) return;
  if (place.dataset.state !== now.state) place.open = idle;
  place.dataset.state = now.state;
  const facts = JSON.stringify([now.catalogue, now.lab]);
  if (place.dataset.facts !== facts) {
    place.dataset.facts = facts;
    place.lastElementChild.replaceChildren(...now.catalogue.flatMap((track) => [
      element("h2", {}, track.title),
      element("div", { class: "wide" }, element("table", {},
        element("thead", {}, element("tr", {}, ...HEADS.map((head) => element("th", { scope: "col" }, head)))),
        element("tbody", {}, ...track.labs.map((one) => labRow(one, now))))),
    ]));
  }
  for (const button of place.querySelectorAll("button")) button.disabled = Boolean(now.doing) || pressed;
}

// At the top of a lab that is solved: remove it, or take the next one.
function showWhatIsNext(now) {
  const next = now.catalogue?.flatMap((track) => track.labs).find((one) => one.next);
  const ended = Boolean(now.debrief || now.state === "failed"), can = Boolean(now.catalogue && ended && now.lab);
  byId("remove").hidden = !can;
  byId("over").hidden = !now.over || Boolean(now.debrief);
  byId("following").hidden = !can || !now.debrief || !next || next.lab === now.lab;
  byId("remove").textContent = `Remove ${now.lab}`;
  byId("following").textContent = next ? `${next.up ? "Go on with" : "Start"} ${next.lab}, the next lab` : "";
  byId("following").dataset.lab = next ? next.lab : "";
  for (const id of ["remove", "over", "following"]) byId(id).disabled = Boolean(now.doing) || pressed;
}

function choose(act, lab) {
  if (!told.lab || confirm(`This removes ${told.lab} with all that you have done there.`)) send(act, { lab });
}

function labRow(one, now) {
  const mine = one.lab === now.lab, word = mine ? "Remove" : one.up ? "Go on" : "Start";
  const act = mine ? "remove" : "choose";
  const button = element("button", { type: "button", "aria-label": `${word}${word === "Go on" ? " with" : ""} ${one.lab}` }, word);
  button.addEventListener("click", () => choose(act, one.lab));
  const cells = [one.title + (one.vm ? " (in the lab VM)" : ""), String(one.minutes), `${one.level} of 5`, one.state, ...one.counts];
  return element("tr", { class: one.next ? "next" : "" }, element("td", {}, button),
    element("th", { scope: "row" }, [...new Set([one.lab, one.was])].join(" ").trim() + (one.up ? " (up)" : one.next ? " (next)" : "")), ...cells.map((text, i) => element("td", { "data-head": HEADS[i + 2] }, text)));
}

function showDebrief(now) {
  const place = byId("debrief"), it = now.debrief;
  place.hidden = !it;
  const shown = `${now.turn} ${now.state}`;
  if (!it || place.dataset.shown === shown) return;
  place.dataset.shown = shown;
  const lesson = element("div", { class: "lesson" });
  lesson.innerHTML = it.lesson;
  const parts = Object.entries(it.right).map(([part, right]) => element("tr", {},
    element("th", { scope: "row" }, part), element("td", {}, it.truth[part]),
    element("td", {}, it.answer[part] ?? "–"), element("td", { class: right ? "green" : "red" }, right ? "yes" : "no")));
  place.replaceChildren(
    element("h2", { tabIndex: -1 }, `It was ${it.lab.split("~")[0]}: ${it.title}`),
    element("p", {}, `${now.state === "green" ? "Repaired: " : now.state === "amber" ? "Repaired, looked at again soon; so far " : ""}${it.points} of ${it.of} points${it.gave_up ? ", given up" : ""}.${it.sure === null ? "" : ` You were ${it.sure}% sure.`}`),
    ...(parts.length ? [element("div", { class: "wide" }, element("table", {}, element("thead", {}, element("tr", {},
      ...["part", "it was", "your answer", "right?"].map((head) => element("th", { scope: "col" }, head)))), element("tbody", {}, ...parts)))] : []),
    ...it.leads.map((lead) => element("p", {}, `A false lead: ${lead.title}. ${lead.why}${lead.taken ? " You answered it, which costs points." : ""}`)),
    element("details", { open: true }, element("summary", {}, "The lesson"), lesson));
}

// --- terminals: one for each machine, opened when its tab is first shown ---

function showTerminals(now) {
  const fresh = now.turn !== turnShown || (now.state === "red" && wasState === "starting");
  wasState = now.state;
  if (!now.machines.length || fresh) { // another stack: the old shells ended with the old one
    for (const one of terminals.values()) one.close();
    terminals.clear();
    document.querySelector("[role=tablist]").replaceChildren();
    document.querySelector(".screens").replaceChildren();
  }
  document.querySelector(".terminals").hidden = !now.machines.length;
  if (!now.machines.length || terminals.size) return;
  turnShown = now.turn;
  const machines = now.machines.filter((name) => !now.daemons.includes(name));
  byId("whose").textContent = `${machines.join(", ")}: machines, with ss, ps and logs. ${now.daemons.join(", ")}: daemons on them, each with its own programs only.`;
  for (const machine of now.machines) terminals.set(machine, makeTab(machine));
  select(now.machines.includes("web") ? "web" : now.machines[0]);
}

function makeTab(machine) {
  const screen = element("div", { class: "screen", id: `screen-${machine}`, role: "tabpanel", hidden: true, "aria-labelledby": `tab-${machine}` });
  const tab = element("button", { type: "button", role: "tab", id: `tab-${machine}`, "aria-controls": screen.id, "aria-selected": "false" }, machine);
  tab.addEventListener("click", () => select(machine));
  document.querySelector("[role=tablist]").append(tab);
  document.querySelector(".screens").append(screen);
  return { tab, screen, open: null, close() { if (!this.open) return; this.open.socket.onclose = null; this.open.socket.close(); this.open.terminal.dispose(); this.open = null; } };
}

function select(machine) {
  for (const [name, one] of terminals) {
    one.tab.setAttribute("aria-selected", String(name === machine));
    one.screen.hidden = name !== machine;
  }
  const one = terminals.get(machine);
  one.open ??= connect(machine, one.screen);
  one.open.fit();
  one.open.terminal.focus();
}

function connect(machine, screen) {
  // A row as high as the letters alone would cut off the underscores.
  const terminal = new Terminal({ fontSize: 14, lineHeight: 1.2, scrollback: 5000, screenReaderMode: true, theme: { background: "#10151c" } });
  const fitter = new FitAddon.FitAddon();
  terminal.loadAddon(fitter);
  terminal.open(screen);
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const socket = new WebSocket(`${scheme}://${location.host}/seat/${seat}/terminal/${machine}`);
  socket.binaryType = "arraybuffer";
  const send = (facts) => { if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(facts)); };
  const fit = () => { fitter.fit(); send({ columns: terminal.cols, rows: terminal.rows }); };
  socket.onopen = fit;
  socket.onmessage = (event) => terminal.write(new Uint8Array(event.data));
  socket.onclose = () => {
    terminal.write("\r\n[closed; press Enter for a new shell]\r\n");
    const again = terminal.onKey(({ domEvent }) => {
      if (domEvent.key !== "Enter") return;
      again.dispose();
      const one = terminals.get(machine);
      if (!one) return;
      one.close();
      select(machine);
    });
  };
  // Ctrl+V pastes, and Ctrl+C copies what is selected; the browser does both.
  terminal.attachCustomKeyEventHandler((event) => {
    const typed = event.ctrlKey && !event.shiftKey && event.key;
    return typed !== "v" && !(typed === "c" && terminal.hasSelection());
  });
  const most = 8192; // characters of a message; a long paste sends several
  terminal.onData((text) => { for (let i = 0; i < text.length; i += most) send({ input: text.slice(i, i + most) }); });
  return { terminal, socket, fit };
}

function fitTerminals() {
  for (const one of terminals.values()) if (one.open && !one.screen.hidden) one.open.fit();
}
addEventListener("resize", fitTerminals);

// --- buttons and clock ---

for (const button of document.querySelectorAll("[data-act]")) {
  button.addEventListener("click", async () => {
    const act = button.dataset.act;
    if (act === "give-up" && !confirm("Give up? You see what it was, but get no points for the repair.")) return;
    await send(act);
  });
}

byId("remove").addEventListener("click", () => choose("remove", told.lab));
byId("over").addEventListener("click", () => {
  if (confirm("Start the lab over? What you have done on its machines is lost.")) send("over");
});
byId("following").addEventListener("click", (event) => choose("choose", event.target.dataset.lab));

let pressed = false; // one action at a time, so that a double click does not cost twice

async function send(act, facts = {}) {
  if (pressed) return;
  pressed = true;
  if (document.activeElement !== document.body) left = document.activeElement;
  for (const button of document.querySelectorAll("button[data-act], form button")) button.disabled = true;
  say("", true);
  const done = await press(`/seat/${seat}/${act}`, { turn: told.turn, ...facts });
  if (done && act === "restart") say(`${facts.daemon} was restarted.`, true);
  if (done && act === "limit") say(`${facts.daemon} has its new limits.`, true);
  setTimeout(() => { pressed = false; show(told); }, 500);
}

byId("diagnose").addEventListener("submit", (event) => {
  event.preventDefault();
  const [first, ...also] = faults().map((row) => Object.fromEntries([...row.querySelectorAll("select")].map((list) => [list.name, list.value])));
  const sure = event.target.elements.sure.value;
  send("diagnose", { ...first, ...(also.length ? { also } : {}), ...(sure ? { sure: Number(sure) } : {}) });
});

byId("one-more").addEventListener("click", () => {
  const row = faults()[0].cloneNode(true);
  for (const list of row.querySelectorAll("select")) list.value = "";
  const less = element("button", { type: "button", class: "quiet" }, "Remove");
  less.addEventListener("click", () => { row.remove(); show(told); });
  row.append(less);
  faults().at(-1).after(row);
  row.querySelector("select").focus();
  show(told);
});

byId("host").addEventListener("submit", (event) => {
  event.preventDefault();
  const { daemon, cpus, memory } = Object.fromEntries(new FormData(event.target));
  if (event.submitter.value === "restart") send("restart", { daemon });
  else send("limit", { daemon, ...(cpus ? { cpus: Number(cpus) } : {}), ...(memory ? { memory } : {}) });
});

function tick() {
  if (!told) return;
  const runs = told.state === "red" && !told.paused && !told.ended;
  const since = runs ? (Date.now() - heard) / 1000 : 0;
  const left = told.left === null ? clock(told.seconds + since) : `${clock(told.left - since)} left`;
  byId("waited").textContent = told.doing ? `${clock(told.waited + (Date.now() - heard) / 1000)} so far`
    : told.state === "amber" && told.again !== null ? `in ${clock(told.again - (Date.now() - heard) / 1000)}` : "";
  byId("clock").textContent = told.state === "red" ? left : told.seconds && told.state !== "waiting" ? `Took ${clock(told.seconds)}.` : "";
}
setInterval(tick, 1000);
listen(`/seat/${seat}/events`, show);
