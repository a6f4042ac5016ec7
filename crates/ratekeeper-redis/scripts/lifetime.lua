-- The time to live of what is worthless after so many nanoseconds, in whole milliseconds.
local function lifetime(high, low)
  local millis = high * 1000 + math.ceil(low / 1000000)
  if millis < 1 then millis = 1 end
  return millis + SPARE
end

-- Who else counts on what is under a key counts on the time that it has left.
local function no_shorter(key, millis)
  local left = redis.call('PTTL', key)
  -- What lives for ever was put there by somebody else: it lives for 400 days more.
  if left == -1 then left = 34560000000 end
  return math.max(millis, left)
end
