# A verdict of pt-query-digest's classes of statements. Ten calls is the count of its own --outliers.
#
# slow: 95% of the calls take up to a second or more, in at least ten calls. Its own --outliers, as
#   shipped: Query_time:1:10. Why it is slow that does not say.
# wasteful: a SELECT reads a thousand rows for each row that it sends (one, where it sends none).
#   The number is ours; "High Performance MySQL" calls 1 to 10 usual.
def number: (. // 0) | tonumber;

[ (input? // {classes: []}) | .classes[]
  | .query_count as $calls
  | (.metrics.Query_time.pct_95 | number) as $seconds
  | ([(.metrics.Rows_sent.sum | number), $calls] | max) as $sent
  | ((.metrics.Rows_examined.sum | number) / $sent | floor) as $read
  | {slow: ($seconds >= 1),
     wasteful: ($read >= 1000 and (.distillate | startswith("SELECT"))),
     join: ((.tables // []) | length > 1),
     text: "\(.distillate): \($calls) calls, 95% within \($seconds) s, \($read) rows read for one sent"}
  | select($calls >= 10 and (.slow or .wasteful))
] as $bad
| {alarm: ($bad | length > 0),
   causes: [if any($bad[]; .wasteful) then "missing-index" else empty end,
            if any($bad[]; .wasteful and .join) then "slow-join" else empty end],
   component: "mysql",
   evidence: [$bad[].text]}
