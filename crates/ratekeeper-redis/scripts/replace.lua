-- Replaces a state that was read and is not as it should be, unless somebody changed it since. Keeps its expiry.
--
-- KEYS[1]  where it is
-- ARGV[1]  a: a string, then ARGV[2] what was read, ARGV[3] what to write instead (none: forget it)
--          b: a hash, then ARGV[2] how many names and contents were read, these, and those to write instead
-- Returns 1 if it was replaced.

local key = KEYS[1]
if ARGV[1] == 'a' then
  if redis.call('GET', key) ~= ARGV[2] then return 0 end
  if ARGV[3] then
    redis.call('SET', key, ARGV[3], 'KEEPTTL')
  else
    redis.call('DEL', key)
  end
  return 1
end
local found, read = redis.call('HGETALL', key), tonumber(ARGV[2])
if #found ~= read then return 0 end
for at = 1, read do
  if found[at] ~= ARGV[at + 2] then return 0 end
end
local left = redis.call('PTTL', key)
redis.call('DEL', key)
for at = read + 3, #ARGV, 2 do redis.call('HSET', key, ARGV[at], ARGV[at + 1]) end
if left > 0 and #ARGV > read + 2 then redis.call('PEXPIRE', key, left) end
return 1
