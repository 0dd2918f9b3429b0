// Light or dark: as the system has it, or as the button in the header says. It runs before the page is drawn.
"use strict";

(() => {
  const root = document.documentElement, kept = "faultlab-colours", every = ["system", "light", "dark"];
  let chosen = "system";
  try { chosen = localStorage.getItem(kept) ?? chosen; } catch { /* a browser can keep nothing */ }
  if (!every.includes(chosen)) chosen = "system";

  function apply() {
    if (chosen === "system") delete root.dataset.colours;
    else root.dataset.colours = chosen;
    document.querySelector("meta[name=color-scheme]")?.setAttribute("content", chosen === "system" ? "light dark" : chosen);
  }
  apply();

  addEventListener("DOMContentLoaded", () => {
    const header = document.querySelector("header");
    if (!header?.childElementCount) return;
    const button = document.createElement("button");
    Object.assign(button, { type: "button", id: "colours", className: "quietly" });
    const say = () => { button.textContent = `Colours: ${chosen}`; };
    button.addEventListener("click", () => {
      chosen = every[(every.indexOf(chosen) + 1) % every.length];
      try { localStorage.setItem(kept, chosen); } catch { /* it lasts as long as the page */ }
      apply();
      say();
    });
    say();
    header.prepend(button);
  });
})();
