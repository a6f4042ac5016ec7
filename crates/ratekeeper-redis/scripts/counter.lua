-- Counts in a counter of envoyproxy/ratelimit, as that does: INCRBY, then EXPIRE.
--
-- KEYS[1]  the counter
-- ARGV[1]  the hits; below zero they are given back, and none are a look, which writes nothing
-- ARGV[2]  for how many seconds the counter is kept from now on
-- ARGV[3]  the limit, if hits beyond it are not to be counted; otherwise nothing
-- Returns what the counter has come to, as text if it is large; in a list if nothing was counted. The counter itself never
-- falls below zero, nor does it stop counting at its end.

if ARGV[1] == '0' then return {redis.call('GET', KEYS[1]) or '0'} end
if ARGV[3] ~= '' then
  local before = redis.call('GET', KEYS[1]) or '0'
  if math.max(tonumber(before), 0) + tonumber(ARGV[1]) > tonumber(ARGV[3]) then return {before} end
end
local count = redis.pcall('INCRBY', KEYS[1], ARGV[1])
if type(count) == 'table' then
  if not string.find(count.err, 'overflow', 1, true) then return count end
  local is_given_back = string.sub(ARGV[1], 1, 1) == '-'
  count = is_given_back and '0' or '9223372036854775807'
  redis.call('SET', KEYS[1], count)
elseif count < 0 then
  redis.call('SET', KEYS[1], '0')
elseif count >= 9007199254740992 then
  -- Lua's numbers are doubles, which end there.
  count = redis.call('GET', KEYS[1])
end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return count
