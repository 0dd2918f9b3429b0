// What a seat is told while it works, and its raised hand. seat.js calls showNews with each view.
"use strict";

function showNews(now) {
  const place = byId("news"), hand = byId("hand"), facts = JSON.stringify(now.news);
  hand.hidden = Boolean(now.catalogue) || now.ended || now.paused; // a learner alone has no trainer
  hand.setAttribute("aria-pressed", String(now.hand));
  hand.textContent = now.hand ? "Your hand is up: take it down" : "Raise your hand";
  place.hidden = !now.news.length;
  if (place.dataset.facts === facts) return; // it would be read aloud again
  place.dataset.facts = facts;
  place.replaceChildren(...now.news.map((one) => {
    const text = element("div", {});
    text.innerHTML = one.html;
    const at = new Date(1000 * one.t).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    const from = one.kind === "ticket" ? "A new ticket" : `From ${one.sender}`;
    return element("article", { class: one.kind }, element("h2", {}, from, " ", element("span", { class: "quiet" }, at)), text);
  }));
}

byId("hand").addEventListener("click", async ({ currentTarget: hand }) => {
  hand.disabled = true; // a double click counts once
  await press(`/seat/${document.body.dataset.seat}/hand`, { up: hand.getAttribute("aria-pressed") !== "true" });
  hand.disabled = false;
});
