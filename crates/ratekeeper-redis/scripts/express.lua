-- The usual request, in as few steps as it takes: an acquire of a cost within the capacity, one plan in ASCII, all of
-- its rules GCRA with a refill below 2^52 ns, so that differences of instants are exact in a double; or one such quota
-- that a request brings.
--
-- A pattern for as many rules as there are: a line with `_N` stands once for each rule, `@( )` in a line for a list
-- over all rules, SLACK for how far beyond a refill they may reach.
--
-- KEYS[1]  the plan
-- ARGV     for each rule the cost times the emission interval, and the refill time, in nanoseconds; then the text of
--          all their states as a pattern, and as a format
--
-- Returns what `decide` returns, or { 4 } if anything is unusual: then nothing was written, and `decide` is asked.

local @(new_N, refill_N), pattern, layout = unpack(ARGV)
local @(ahead_N) = @(0)
refill_N = refill_N + 0
local raw = redis.call('GET', KEYS[1])
if raw then
  -- An instant of these years has 19 digits, of which 10 are seconds.
  local @(high_N, low_N) = string.match(raw, pattern)
  if not high_1 then return { 4 } end
  ahead_N = (high_N - NOW_HIGH) * 1000000000 + (low_N - NOW_LOW)
  -- Further ahead: to be cut off.
  if ahead_N < 0 then ahead_N = 0 elseif ahead_N > refill_N + SLACK then return { 4 } end
end
local longest, passes = 0, 1
new_N = ahead_N + new_N
if new_N > longest then longest = new_N end
if new_N > refill_N then passes = 0 end
if passes == 1 then
  new_N = NOW_LOW + new_N
  local low_N = new_N % 1000000000
  redis.call('SET', KEYS[1], string.format(layout, @(NOW_HIGH + (new_N - low_N) / 1000000000, low_N)),
    'PX', math.ceil(longest / 1000000) + SPARE)
end
return { passes, NOW, raw }
