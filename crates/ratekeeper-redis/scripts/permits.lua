-- Permits for what is in flight, each leased for a time: a holder that is gone no longer counts when its lease ends.
--
-- KEYS[1]  a sorted set: permits by the instant their lease ends, in microseconds
-- ARGV[1]  a: take one, then ARGV[2] its name, ARGV[3] how many there may be, ARGV[4] the lease in microseconds
--          n: renew one, then ARGV[2] its name, ARGV[3] the lease
--          r: give one back, then ARGV[2] its name
--          p: count
-- Returns { 1 or 0, how many are held now }; 0 if there was none left to take, or none of that name.

local clock = redis.call('TIME')
-- Microseconds since the epoch are exact in a double until the year 2255.
local now = clock[1] * 1000000 + clock[2]
local key, verb, name = KEYS[1], ARGV[1], ARGV[2]

-- Leases that have ended. A peek leaves them, and does not count them.
local held
if verb == 'p' then
  held = redis.call('ZCOUNT', key, '(' .. string.format('%.0f', now), '+inf')
else
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now))
  held = redis.call('ZCARD', key)
end

-- The set lives as long as its last lease.
local function lease(micros)
  redis.call('ZADD', key, string.format('%.0f', now + micros), name)
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
  redis.call('PEXPIRE', key, string.format('%.0f', math.ceil((last[2] - now) / 1000)))
end

if verb == 'a' then
  if held >= tonumber(ARGV[3]) then return { 0, held } end
  lease(tonumber(ARGV[4]))
  return { 1, held + 1 }
elseif verb == 'n' then
  if not redis.call('ZSCORE', key, name) then return { 0, held } end
  lease(tonumber(ARGV[3]))
  return { 1, held }
elseif verb == 'r' then
  local removed = redis.call('ZREM', key, name)
  return { removed, held - removed }
end
return { 1, held }
