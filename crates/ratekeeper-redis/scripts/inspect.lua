-- Reads whatever is under a key.
--
-- KEYS[1]  the key
-- Returns { type, content (a string, or names and contents of a hash), time to live in milliseconds, now }; now in
-- microseconds. The time to live is -1 if there is none.

local kind = redis.call('TYPE', KEYS[1]).ok
local content = false
if kind == 'string' then content = redis.call('GET', KEYS[1]) end
if kind == 'hash' then content = redis.call('HGETALL', KEYS[1]) end
local clock = redis.call('TIME')
return { kind, content, redis.call('PTTL', KEYS[1]), clock[1] * 1000000 + clock[2] }
