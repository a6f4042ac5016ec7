-- The time to live of what is worthless after so many nanoseconds, in whole milliseconds.
local function lifetime(high, low)
  local millis = high * 1000 + math.ceil(low / 1000000)
  if millis < 1 then millis = 1 end
  return format('%d', millis + SPARE)
end
