-- wrk script: people whose browsers take gzip, and who read a second or so before the next page.
dofile("/usr/local/share/wrk/json.lua")
wrk.headers["Accept-Encoding"] = "gzip"
function delay() return math.random(0, 2000) end
