-- Counts in a counter of envoyproxy/ratelimit, as that does: INCRBY, then EXPIRE.
--
-- KEYS[1]  the counter
-- ARGV[1]  the hits; below zero they are given back
-- ARGV[2]  for how many seconds the counter is kept from now on
-- Returns what INCRBY has come to. The counter itself never falls below zero, nor does it stop counting at its end.

local count = redis.pcall('INCRBY', KEYS[1], ARGV[1])
if type(count) == 'table' then
  if not string.find(count.err, 'overflow', 1, true) then return count end
  local is_given_back = string.sub(ARGV[1], 1, 1) == '-'
  count = is_given_back and '0' or '9223372036854775807'
  redis.call('SET', KEYS[1], count)
elseif count < 0 then
  redis.call('SET', KEYS[1], '0')
end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return count
