-- wrk script: people whose browsers take gzip, and who read a second or so before the next page.
dofile("/usr/local/share/wrk/json.lua")
-- What browsers say, of which one is taken in each load. No rule should serve just one of them.
local says = {"gzip, deflate", "gzip, deflate, br", "gzip, deflate, br, zstd", "br;q=1.0, gzip;q=0.8, *;q=0.1"}
wrk.headers["Accept-Encoding"] = says[os.time() % #says + 1]
function delay() return math.random(0, 2000) end
