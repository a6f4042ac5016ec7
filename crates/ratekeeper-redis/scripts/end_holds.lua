-- Ends live holds that name one of some plans, as if they had never been: places are free in all their plans, and what was
-- charged stays.
--
-- KEYS[1]  the holds, KEYS[2] their leases
-- ARGV[1]  how many leases to pass over, which were looked at before; if it is no number, nothing is done but to look
--          whether there is anything
-- ARGV[2]  the time in microseconds; the server's, if it is empty
-- ARGV     the names of the plans
-- Returns how many leases to pass over the next time, -1 if all were looked at; and how many holds were ended.

local holds, leases, skip = KEYS[1], KEYS[2], tonumber(ARGV[1])
-- Whoever holds nothing needs no leave to look at hashes.
if redis.call('PTTL', holds) == -2 then return { -1, 0 } end
if not skip then return { 0, 0 } end
local ids = redis.call('ZRANGEBYSCORE', leases, '0', '+inf', 'LIMIT', ARGV[1], '500')
if not ids[1] then return { -1, 0 } end
local micros = tonumber(ARGV[2])
if not micros then
  local clock = redis.call('TIME')
  micros = clock[1] * 1000000 + clock[2]
end
local names = {}
for index = 3, #ARGV do
  names[ARGV[index]] = true
  -- Nor is anything given back that lapsed before.
  redis.call('HDEL', holds, '<' .. ARGV[index])
end
local records, ended = redis.call('HMGET', holds, unpack(ids)), {}
for index = 1, #ids do
  local record = records[index]
  if record and string.sub(record, 1, 1) == 'L' then
    local body = 27 + string.byte(record, 26)
    local at = body + 1 + 28 * string.byte(record, body)
    local is_named = false
    local plans = string.byte(record, at)
    at = at + 1
    for _ = 1, plans do
      local size = string.byte(record, at)
      if names[string.sub(record, at + 1, at + size)] then is_named = true end
      at = at + 1 + size
    end
    -- One that has lapsed is not live, and is dealt with as such.
    if is_named and struct.unpack('<d', record, 2) > micros then
      ended[#ended + 1] = ids[index]
      at = body + 1
      for _ = 1, string.byte(record, body) do
        local _, _, flag, is_bounded = string.byte(record, at, at + 3)
        if is_bounded == 1 and (flag == 0 or string.byte(record, 26 + flag) == 49) then
          local field = '=' .. string.sub(record, at + 4, at + 11)
          local high, low = struct.unpack('<dd', redis.call('HGET', holds, field) or string.rep('\0', 16))
          local less_high, less_low = struct.unpack('<dd', record, at + 12)
          high, low = high - less_high, low - less_low
          if low < 0 then high, low = high - 1, low + 1000000000 end
          if high < 0 then high, low = 0, 0 end
          redis.call('HSET', holds, field, struct.pack('<dd', high, low))
        end
        at = at + 28
      end
    end
  end
end
if ended[1] then
  redis.call('HDEL', holds, unpack(ended))
  redis.call('ZREM', leases, unpack(ended))
  local head = redis.call('HGET', holds, '#')
  if head then
    local next, live, til, clear = struct.unpack('<dddd', head)
    redis.call('HSET', holds, '#', struct.pack('<dddd', next, math.max(0, live - #ended), til, clear))
  end
end
return { skip + #ids - #ended, #ended }
