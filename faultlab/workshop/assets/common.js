// Shared by all pages of a workshop: receive changes, press buttons, show a clock.
"use strict";

// Chromium drops requests when Docker adds or removes a network: load the page again.
addEventListener("error", ({ target }) => {
  if (target.matches?.("script, link")) setTimeout(() => location.reload(), 1000);
}, true);

const byId = (id) => document.getElementById(id);

function say(text, well = false) {
  byId("message").textContent = text;
  byId("message").classList.toggle("well", well);
}

// Calls show(told) whenever something has changed; says so when the server does not answer.
// `more`: functions for events of other names.
function listen(url, show, more = {}) {
  const source = new EventSource(url);
  source.onmessage = (event) => {
    if (byId("message").dataset.lost) { say(""); delete byId("message").dataset.lost; }
    show(JSON.parse(event.data));
  };
  for (const [name, hear] of Object.entries(more)) source.addEventListener(name, (event) => hear(JSON.parse(event.data)));
  source.addEventListener("gone", () => { source.close(); say("This link is no longer valid."); });
  source.onerror = () => {
    byId("message").dataset.lost = "yes";
    say("The server does not respond. This page keeps trying; nothing is lost.");
    if (source.readyState === EventSource.CLOSED) setTimeout(() => listen(url, show, more), 3000); // it was refused
  };
}

// Send an action to the server; return its response, or null after showing the error.
async function press(url, facts = {}) {
  try {
    const answer = await fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(facts) });
    const told = await answer.json();
    if (answer.ok) return told;
    say(told.error);
  } catch {
    say("The server does not respond.");
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
