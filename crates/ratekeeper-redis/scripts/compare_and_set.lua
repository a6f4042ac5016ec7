-- Sets a value if it is still what was read.
--
-- KEYS[1]  the key
-- ARGV[1]  the new value
-- ARGV[2]  its time to live in milliseconds
-- ARGV[3]  what was read; left out if there was nothing
-- Returns 1 if it was set.

if redis.call('GET', KEYS[1]) ~= (ARGV[3] or false) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
