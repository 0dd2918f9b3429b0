// Chromium drops requests when Docker adds or removes a network: load the page again.
addEventListener("error", ({ target }) => {
  if (target.matches?.("script, link")) setTimeout(() => location.reload(), 1000);
}, true);
