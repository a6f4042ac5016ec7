-- The time is given, for tests. ARGV[#ARGV]: nanoseconds since the epoch.
--
-- The server's expiry goes on by the server's clock, so it is put off by an hour: a clock that stands still while a
-- test runs must not lose state.

local NOW = ARGV[#ARGV]
local NOW_HIGH, NOW_LOW = natural(NOW)

local function lifetime(high, low)
  return format('%d', (high + 3600) * 1000 + math.ceil(low / 1000000))
end
