-- wrk script: users with a browser's headers. Print the result as one line of JSON, so that no table is scraped.
-- Latencies in microseconds, as wrk counts them. "refused": see booking.lua.
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{"microseconds":%d,"requests":%d,"bytes":%d,"connect":%d,"read":%d,' ..
    '"write":%d,"status":%d,"refused":%d,"timeout":%d,' ..
    '"p50":%d,"p90":%d,"p99":%d,"max":%d}\n',
    summary.duration, summary.requests, summary.bytes, e.connect, e.read,
    e.write, e.status, summary.refused or 0, e.timeout, latency:percentile(50),
    latency:percentile(90), latency:percentile(99), latency.max))
end

-- A rule for requests without such headers must not tell this load from other users.
wrk.headers["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64; rv:" .. 115 + os.time() % 30 ..
  ".0) Gecko/20100101 Firefox/" .. 115 + os.time() % 30 .. ".0"
wrk.headers["Accept"] = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
wrk.headers["Accept-Language"] = "en-US,en;q=0.5"
