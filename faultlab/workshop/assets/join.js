// The page that asks before a link takes a browser to another seat.
"use strict";

if (typeof byId === "undefined") setTimeout(() => location.reload(), 1000); // common.js was dropped

byId("join").addEventListener("click", async () => {
  const told = await press(`/join${location.search}`);
  if (told) location.assign(told.home);
});
