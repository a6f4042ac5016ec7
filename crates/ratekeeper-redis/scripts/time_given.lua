-- The time is given, for tests. ARGV[#ARGV]: nanoseconds since the epoch.

local NOW = ARGV[#ARGV]
local NOW_HIGH, NOW_LOW = tonumber(string.sub(NOW, 1, -10)) or 0, tonumber(string.sub(NOW, -9))
-- The server's expiry goes on by the server's clock, so it is put off by an hour, in milliseconds: a clock that stands
-- still while a test runs must not lose state.
local SPARE = 3600000
