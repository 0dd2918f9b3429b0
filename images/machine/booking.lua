-- wrk script: partners book tables, one order a request, spread over all restaurants, tables and
-- sittings of the next four years. A table that is taken already (409) is an answer, not a failure:
-- it is counted as "refused". Usage: wrk -s booking.lua http://web [-- SEED]; the seed is the clock
-- unless given, since the same orders a second time would all be refused.
dofile("/usr/local/share/wrk/json.lua")
local report = done
local threads = {}
local times = { "12:00", "14:00", "18:00", "20:00" }
local headers = { ["User-Agent"] = wrk.headers["User-Agent"], ["Content-Type"] = "application/x-www-form-urlencoded" }
refused = 0

function setup(thread)
  threads[#threads + 1] = thread
  thread:set("number", #threads)
end

function init(args)
  math.randomseed((tonumber(args[1]) or os.time()) * 100 + number)
end

function request()
  local day = os.time() + math.random(1, 1460) * 86400
  local table = math.random(1, 30)
  local seats = 2 + 2 * math.floor((table - 1) / 8)  -- as booking.sql makes them
  return wrk.format("POST", "/booking/order.php", headers, string.format(
    "token=token-%02d&restaurant=%d&table=%d&date=%s&time=%s&guests=%d&name=Ada+Lovelace",
    math.random(1, 19), math.random(1, 50), table,
    os.date("%Y-%m-%d", day), times[math.random(1, 4)], math.random(1, seats)))
end

function response(status)
  if status == 409 then refused = refused + 1 end
end

function done(summary, latency, requests)
  local sum = 0
  for _, thread in ipairs(threads) do sum = sum + thread:get("refused") end
  summary.refused = sum
  summary.errors.status = summary.errors.status - sum
  report(summary, latency, requests)
end
