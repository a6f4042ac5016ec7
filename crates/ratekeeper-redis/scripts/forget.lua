-- Forgets what is under a key, whatever it is, and notes when: what was charged before must not be given back to what
-- comes after.
--
-- KEYS[1]  where it is
-- KEYS[2]  where its last reset is noted
-- Returns 1 if there was something, else 0.

if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
-- So long something that was charged before could be given back: while what is forgotten would have counted.
local millis = no_shorter(KEYS[2], no_shorter(KEYS[1], 1))
redis.call('UNLINK', KEYS[1])
redis.call('SET', KEYS[2], '42|' .. decimal(NOW_HIGH, NOW_LOW), 'PX', string.format('%d', millis))
return 1
