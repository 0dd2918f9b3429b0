// The page of a participant: ticket, terminals, hints, check, answer, debrief.
"use strict";

if (typeof byId === "undefined") setTimeout(() => location.reload(), 1000); // common.js was dropped

const seat = document.body.dataset.seat;
const CHOOSE = "Start a lab: it sets up a small service and gives you a ticket. Find the cause in the terminals, repair it, and press Check.";
const HEADS = ["start", "lab", "what its users report", "minutes", "level", "done", "time", "hints", "failed checks"];
const CHANGES = { better: "▲", worse: "▼", new: "●", same: "=" }; // since the check before
let told = null, heard = 0, turnShown = 0, wasState = "", saidLast = "";
let left = null; // what had the focus before its button was disabled
const terminals = new Map();

function show(now) {
  const finished = told && !told.debrief && now.debrief;
  const repaired = told && told.turn === now.turn && !told.success && now.success;
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
    : now.state === "amber" && !now.paused && !now.ended ? "It is repaired. It is looked at again in a few minutes, and that verdict counts. Read on meanwhile; the next lab comes after that."
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
  byId("acts").hidden = byId("asked").hidden = !can;
  for (const button of document.querySelectorAll("button[data-act], form button")) button.disabled = Boolean(now.doing) || pressed;
  const hint = document.querySelector("[data-act=hint]");
  hint.hidden = !now.hint_left || Boolean(now.debrief) || now.state === "amber";
  hint.textContent = now.next_cost ? `Hint (costs ${now.next_cost} point${now.next_cost === 1 ? "" : "s"})` : "Hint (free)";
  byId("next").hidden = !(now.debrief || now.state === "failed" || now.behind) || (now.state === "amber" && !now.behind) || now.last || now.ended;
  showNews(now); showPages(now); showForm(now); showFindings(now); showHints(now); showSuccess(now); showDebrief(now); showCatalogue(now); showWhatIsNext(now);
  showTerminals(now);
  const desk = document.querySelector(".desk").classList; // the lesson gets more room than the terminals
  if (desk.contains("told") !== Boolean(now.debrief)) { desk.toggle("told"); fitTerminals(); }
  tick();
  if (repaired) showResult("success");
  else if (finished) showResult("debrief");
  else if (checked) {
    byId("findings").scrollIntoView({ block: "start" });
    focusOn(byId("verdict"));
  }
  else if (hinted) byId("hints").querySelector("li:last-child").scrollIntoView({ block: "nearest" });
  if (left && !now.doing && !pressed) { focusOn(left); left = null; }
}

// A browser takes the focus from a button that is disabled, at once or soon. Give it back, unless it is elsewhere by now.
function focusOn(place) {
  const at = document.activeElement;
  if (at === document.body || at.disabled || (at.dataset.act === "check" && place !== left)) place.focus({ preventScroll: true });
}

// Bring the result into view, and a screen reader to it.
function showResult(which) {
  const place = byId(which);
  place.scrollIntoView();
  place.querySelector("h2").focus({ preventScroll: true });
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
    : now.state === "amber" ? "Meanwhile, answer what it was."
    : now.state === "green" ? "It is repaired. Answer what it was, and the debrief opens." : "";
}

// What a check has found: what is wrong first, then what has changed, and folded what is as it should be.
function showFindings(now) {
  const place = byId("findings"), known = now.findings.some((found) => found.change);
  place.hidden = !now.verdict;
  byId("verdict").textContent = now.verdict;
  byId("why").textContent = now.state !== "failed" ? now.why : "";
  const ill = now.findings.filter((found) => !found.holds), well = now.findings.filter((found) => found.holds);
  fill(place.querySelector(".wide"), ill, known);
  place.querySelector(".wide").hidden = !ill.length;
  fill(byId("well"), well, known);
  byId("well").hidden = !well.length;
  byId("well").querySelector("summary").textContent = `As it should be: ${well.length}`;
  const said = [...new Set(now.findings.map((found) => found.says).filter(Boolean)), ...now.popular];
  const list = place.querySelector("ul");
  list.hidden = !said.length;
  list.replaceChildren(...said.map((text) => element("li", {}, text)));
  const named = (word) => now.findings.filter((found) => found.change === word).map((found) => found.name);
  const parts = Object.keys(CHANGES).map((word) => [word, named(word)]).filter(([, names]) => names.length);
  byId("changed").hidden = !known;
  byId("changed").textContent = parts.length
    ? `Since the check before: ${parts.map(([word, names]) => word === "same" ? `${names.length} the same` : `${names.length} ${word} (${names.join(", ")})`).join("; ")}.` : "";
}

// `known`: a check before it has values to compare with.
function fill(place, findings, known) {
  const heads = ["what users see", "measured", "wanted", ...(known ? ["before"] : [])];
  place.querySelector("thead").replaceChildren(element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head))));
  place.querySelector("tbody").replaceChildren(...findings.map((found) => element("tr", {},
    element("td", {}, element("span", { class: `mark ${found.holds ? "green" : "red"}`, "aria-label": found.holds ? "yes:" : "no:", role: "img" }, found.holds ? "✓" : "✗"), ` ${found.name}`),
    element("td", { "data-head": "measured" }, measured(found.value, found.unit)),
    element("td", { "data-head": "wanted" }, whole(found.wanted)),
    ...(known ? [element("td", { "data-head": "before", class: found.change ?? "" }, ...(found.change ? before(found) : []))] : []))));
}

function before(found) {
  const mark = `${CHANGES[found.change]} ${found.change}`;
  return found.change === "new" ? [mark] : [measured(found.was, found.unit), " ", element("span", { class: "whole" }, mark)];
}

function measured(value, unit) {
  return whole(`${number(value)} ${unit}`.trim());
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
  const every = now.catalogue.flatMap((track) => track.labs);
  byId("done").textContent = `: ${every.filter((one) => one.done).length} of ${every.length} done`;
  const facts = JSON.stringify([now.catalogue, now.lab]);
  if (place.dataset.facts !== facts) {
    place.dataset.facts = facts;
    place.lastElementChild.replaceChildren(...now.catalogue.flatMap((track) => [
      element("h2", {}, track.title),
      element("div", { class: "wide" }, element("table", {},
        element("thead", {}, element("tr", {}, ...HEADS.map((head) => element("th", { scope: "col" }, head)))),
        element("tbody", {}, ...track.labs.map((one) => labRow(one, now))))),
    ]));
    setFilter(now.catalogue);
  }
  for (const button of place.querySelectorAll("button")) button.disabled = Boolean(now.doing) || pressed;
}

// --- the filter of the catalogue; the address keeps it ---

function setFilter(catalogue) {
  const form = byId("filter"), tracks = form.elements.track, kept = new URLSearchParams(location.hash.slice(1));
  if (tracks.options.length === 1) {
    tracks.append(...catalogue.map((track) => element("option", {}, track.title)));
    for (const [name, value] of kept) {
      const field = form.elements.namedItem(name);
      if (field) field.value = value;
    }
  }
  [...byId("catalogue").querySelectorAll("tbody")].forEach((body, i) => [...body.rows].forEach((row, j) => {
    const { level, done } = catalogue[i].labs[j];
    Object.assign(row.dataset, { track: catalogue[i].title, level, state: done ? "done" : "open" });
  }));
  filter();
}

function filter() {
  const { find, ...wanted } = Object.fromEntries(new FormData(byId("filter")));
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0, of = 0;
  for (const body of byId("catalogue").querySelectorAll("tbody")) {
    for (const row of body.rows) {
      const text = `${row.textContent} ${row.dataset.track}`.toLowerCase();
      row.hidden = !(words.every((word) => text.includes(word)) && Object.entries(wanted).every(([name, value]) => !value || row.dataset[name] === value));
      shown += !row.hidden; of += 1;
    }
    const part = body.closest(".wide");
    part.hidden = part.previousElementSibling.hidden = ![...body.rows].some((row) => !row.hidden);
  }
  byId("found").textContent = shown < of ? `${shown || "None"} of ${of} labs` : "";
}

byId("filter").addEventListener("input", () => {
  const set = [...new FormData(byId("filter"))].filter(([, value]) => value);
  history.replaceState(null, "", set.length ? `#${new URLSearchParams(set)}` : location.pathname);
  filter();
});
byId("filter").addEventListener("submit", (event) => event.preventDefault());

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

function choose(act, facts) {
  if (!told.lab || confirm(`This removes ${told.lab} with all that you have done there.`)) send(act, facts);
}

byId("mystery").addEventListener("submit", (event) => {
  event.preventDefault();
  const { faults, decoys, hard } = event.target.elements;
  choose("mystery", { faults: Number(faults.value), decoys: Number(decoys.value), hard: hard.checked });
});
byId("mystery").addEventListener("input", ({ currentTarget }) => {
  const { faults, hard } = currentTarget.elements; // several faults have no strength of their own
  hard.disabled = faults.value !== "1";
  if (hard.disabled) hard.checked = false;
});

function labRow(one, now) {
  const mine = one.lab === now.lab, word = mine ? "Remove" : one.up ? "Go on" : "Start";
  const act = mine ? "remove" : "choose";
  const button = element("button", { type: "button", "aria-label": `${word}${word === "Go on" ? " with" : ""} ${one.lab}` }, word);
  button.addEventListener("click", () => choose(act, { lab: one.lab }));
  const cells = [one.title + (one.vm ? " (in the lab VM)" : ""), String(one.minutes), `${one.level} of 5`, one.state, ...one.counts];
  return element("tr", { class: one.next ? "next" : "" }, element("td", {}, button),
    element("th", { scope: "row" }, [...new Set([one.lab, one.was])].join(" ").trim() + (one.up ? " (up)" : one.next ? " (next)" : "")), ...cells.map((text, i) => element("td", { "data-head": HEADS[i + 2] }, text)));
}

// What a repair took, what users met before and after it, and what is next.
function showSuccess(now) {
  const place = byId("success"), it = now.success;
  place.hidden = !it;
  const facts = JSON.stringify([now.turn, now.state, Boolean(now.debrief), it]);
  if (!it || place.dataset.facts === facts) return;
  place.dataset.facts = facts;
  const next = it.points === null && now.blind && !now.answer.length
    ? element("p", {}, "Next: ", element("a", { href: "#diagnose" }, "answer what it was"), ", and the debrief opens.") : "";
  const card = (text, what) => element("div", {}, element("dt", {}, what), element("dd", {}, text));
  place.replaceChildren(
    element("h2", { tabIndex: -1 }, now.state === "amber" ? "Repaired, so far" : "Repaired"),
    element("dl", {}, card(clock(it.seconds), "minutes"), card(String(it.checks), it.checks === 1 ? "check" : "checks"),
      card(String(it.hints), it.hints === 1 ? "hint" : "hints"), ...(it.points === null ? [] : [card(`${it.points} of ${it.of}`, "points")])),
    ...(it.rows.length ? [element("div", { class: "wide" }, element("table", {},
      element("thead", {}, element("tr", {}, ...["what users see", "before", "now"].map((head) => element("th", { scope: "col" }, head)))),
      element("tbody", {}, ...it.rows.map((row) => element("tr", {}, element("th", { scope: "row" }, row.name),
        element("td", { "data-head": "before", class: "red" }, measured(row.was, row.unit)), element("td", { "data-head": "now", class: "green" }, measured(row.now, row.unit)))))))] : []),
    next);
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
    now.success ? "" : element("p", {}, `${now.state === "green" ? "Repaired: " : now.state === "amber" ? "Repaired, looked at again soon; so far " : ""}${it.points} of ${it.of} points${it.gave_up ? ", given up" : ""}.${it.sure === null ? "" : ` You were ${it.sure}% sure.`}`),
    ...(parts.length ? [element("div", { class: "wide" }, element("table", {}, element("thead", {}, element("tr", {},
      ...["part", "it was", "your answer", "right?"].map((head) => element("th", { scope: "col" }, head)))), element("tbody", {}, ...parts)))] : []),
    ...it.leads.map((lead) => element("p", {}, `A false lead: ${lead.title}. ${lead.why}${lead.taken ? " You answered it, which costs points." : ""}`)),
    element("details", { open: true }, element("summary", {}, "The lesson"), lesson));
}

// --- the map: the machines of the stack, each with its daemons; a tab opens the terminal there ---

function makeMap(machines) {
  document.querySelector("[role=tablist]").replaceChildren(...machines.map((machine) =>
    element("div", { class: "machine", role: "none" }, ...[machine, ...machine.daemons].map(({ name }) => {
      terminals.set(name, makeTab(name));
      return terminals.get(name).tab;
    }))));
}

// What has ended says so, with its exit code.
function showStates(machines) {
  for (const { name, state } of machines.flatMap((machine) => [machine, ...machine.daemons])) {
    const tab = terminals.get(name)?.tab, text = !state || state === "running" ? name : `${name} ■ ${state}`;
    if (!tab || tab.textContent === text) continue;
    tab.textContent = text;
    tab.classList.toggle("stopped", text !== name);
  }
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
  if (now.machines.length && !terminals.size) openFirst(now);
  showStates(now.map);
}

function openFirst(now) {
  turnShown = now.turn;
  makeMap(now.map);
  select(now.machines.includes("web") ? "web" : now.machines[0]);
}

function makeTab(machine) {
  const screen = element("div", { class: "screen", id: `screen-${machine}`, role: "tabpanel", hidden: true, "aria-labelledby": `tab-${machine}` });
  const tab = element("button", { type: "button", role: "tab", id: `tab-${machine}`, "aria-controls": screen.id, "aria-selected": "false" }, machine);
  tab.addEventListener("click", () => select(machine));
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

byId("remove").addEventListener("click", () => choose("remove", { lab: told.lab }));
byId("over").addEventListener("click", () => {
  if (confirm("Start the lab over? What you have done on its machines is lost.")) send("over");
});
byId("following").addEventListener("click", (event) => choose("choose", { lab: event.target.dataset.lab }));

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
  const waited = told.waited + (Date.now() - heard) / 1000;
  byId("usual").hidden = !told.usual;
  byId("usual").value = told.usual ? Math.min(1, waited / told.usual) : 0;
  byId("waited").textContent = told.doing ? `${clock(waited)} so far${told.usual ? `, the last one took ${clock(told.usual)}` : ""}`
    : told.state === "amber" && told.again !== null ? `in ${clock(told.again - (Date.now() - heard) / 1000)}` : "";
  byId("clock").textContent = told.state === "red" ? left : told.seconds && told.state !== "waiting" ? `Took ${clock(told.seconds)}.` : "";
}
setInterval(tick, 1000);
listen(`/seat/${seat}/events`, show, { visits: showVisits });
