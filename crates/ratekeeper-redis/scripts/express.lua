-- The usual request, in as few steps as it takes: an acquire of a cost within the capacity, one plan in ASCII, all of
-- its rules GCRA with a refill below 2^52 ns, so that differences of instants are exact in a double.
--
-- KEYS[1]  the plan
-- ARGV     for each rule the cost times the emission interval, and the refill time, in nanoseconds
--
-- Returns what `decide` returns, or { 4 } if anything is unusual: then nothing was written, and `decide` is asked.

local clock = redis.call('TIME')
local seconds, nanos = tonumber(clock[1]), clock[2] * 1000
local now = seconds * 1000000 + clock[2]
local raw = redis.call('GET', KEYS[1])
local count = #ARGV / 2
-- An instant of these years has 19 digits: `42|` and it are 22 characters, `51|` before and `$` after make it 26.
if raw and #raw ~= count * 26 - 4 then return { 4 } end

local sub, floor = string.sub, math.floor
local text, longest, passes = '', 0, 1
for rule = 1, count do
  local new = 0
  if raw then
    local at = rule * 26 - 22
    if rule == count then
      at = at - 3
    elseif sub(raw, at - 3, at - 1) ~= '51|' or sub(raw, at + 22, at + 22) ~= '$' then
      return { 4 }
    end
    local high, low = string.match(raw, '^42|(%d%d%d%d%d%d%d%d%d%d)(%d%d%d%d%d%d%d%d%d)', at)
    if not high then return { 4 } end
    new = (high - seconds) * 1000000000 + (low - nanos)
    if new < 0 then new = 0 end
  end
  local refill = tonumber(ARGV[rule * 2])
  -- Further ahead than a whole refill: to be cut off.
  if new > refill then return { 4 } end
  new = new + ARGV[rule * 2 - 1]
  if new > refill then passes = 0 end
  if new > longest then longest = new end
  local sum = nanos + new
  local carry = floor(sum / 1000000000)
  local tat = string.format('42|%d%09d', seconds + carry, sum - carry * 1000000000)
  if rule == count then
    text = text .. tat
  else
    text = text .. '51|' .. tat .. '$'
  end
end
if passes == 1 then redis.call('SET', KEYS[1], text, 'PX', math.ceil(longest / 1000000)) end
return { passes, now, raw }
