-- The time is the server's, read once.

local clock = redis.call('TIME')
local NOW_HIGH, NOW_LOW = tonumber(clock[1]), tonumber(clock[2]) * 1000
-- As it is told: an integer, in microseconds.
local NOW = NOW_HIGH * 1000000 + clock[2]

-- The time to live of what is worthless after so many nanoseconds, in whole milliseconds.
local function lifetime(high, low)
  local millis = high * 1000 + math.ceil(low / 1000000)
  if millis < 1 then millis = 1 end
  return format('%d', millis)
end
