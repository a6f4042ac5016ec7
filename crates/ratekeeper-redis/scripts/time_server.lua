-- The time is the server's, read once.

local clock = redis.call('TIME')
local NOW_HIGH, NOW_LOW = clock[1] + 0, clock[2] * 1000
-- As it is told: an integer, in microseconds.
local NOW = NOW_HIGH * 1000000 + NOW_LOW / 1000
-- State expires when it is worthless: no milliseconds later.
local SPARE = 0
