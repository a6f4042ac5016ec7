-- Replaces a state that was read and is not as it should be, unless somebody changed it since. Keeps its expiry.
--
-- KEYS[1]  where it is
-- ARGV[1]  a: a string, then ARGV[2] what was read, ARGV[3] what to write instead (none: forget it)
--          b: a hash, which is forgotten, then the names and contents that were read
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
local found = redis.call('HGETALL', key)
if #found ~= #ARGV - 1 then return 0 end
for at = 1, #found do
  if found[at] ~= ARGV[at + 1] then return 0 end
end
redis.call('DEL', key)
return 1
