// What every page of a workshop does: it hears of changes, presses buttons, and shows a clock.
"use strict";

const byId = (id) => document.getElementById(id);

function say(text, well = false) {
  byId("message").textContent = text;
  byId("message").classList.toggle("well", well);
}

// Calls show(told) whenever something has changed; says so when the server does not answer.
function listen(url, show) {
  const source = new EventSource(url);
  source.onmessage = (event) => {
    if (byId("message").dataset.lost) { say(""); delete byId("message").dataset.lost; }
    show(JSON.parse(event.data));
  };
  source.addEventListener("gone", () => { source.close(); say("This link does not hold any more."); });
  source.onerror = () => {
    byId("message").dataset.lost = "yes";
    say("The server does not answer. This page tries again by itself; nothing is lost.");
  };
}

// Presses a button of the server; gives what it answers, or null after saying what went wrong.
async function press(url, facts = {}) {
  try {
    const answer = await fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(facts) });
    const told = await answer.json();
    if (answer.ok) return told;
    say(told.error);
  } catch {
    say("The server does not answer.");
  }
  return null;
}

function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

function element(name, facts = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(facts)) {
    if (key === "class") made.className = value;
    else if (key in made && key !== "role") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}
