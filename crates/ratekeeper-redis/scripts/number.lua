-- Whole numbers of 64 bits, for what is rare.
--
-- Lua has doubles only, which are exact up to 2^53. So a whole number is a pair: high * 1e9 + low, 0 <= low < 1e9.
-- Of an instant or a span these are seconds and nanoseconds. Sums and differences of pairs are exact.

local floor, sub, find, match, format = math.floor, string.sub, string.find, string.match, string.format
local GIGA, EXACT = 1000000000, 9007199254740992
-- The last instant there is: 2^63 - 1 nanoseconds.
local LAST_HIGH, LAST_LOW = 9223372036, 854775807
-- The first one: -2^63.
local FIRST_HIGH, FIRST_LOW = -9223372037, 145224192

-- Decimal digits, at most 20 of them.
local function natural(text)
  if #text <= 9 then return 0, tonumber(text) end
  return tonumber(sub(text, 1, -10)), tonumber(sub(text, -9))
end

-- A signed integer of 64 bits; nothing if it does not fit.
local function integer(text)
  local negative = sub(text, 1, 1) == '-'
  if negative then text = sub(text, 2) end
  if #text > 19 then return nil end
  local high, low = natural(text)
  if high > LAST_HIGH or high == LAST_HIGH and low > LAST_LOW + (negative and 1 or 0) then return nil end
  if not negative then return high, low end
  if low == 0 then return -high, 0 end
  return -high - 1, GIGA - low
end

local function decimal(high, low)
  if high > 0 then return format('%d%09d', high, low) end
  if high == 0 then return format('%d', low) end
  high, low = -high, -low
  if low < 0 then high, low = high - 1, low + GIGA end
  if high == 0 then return format('-%d', low) end
  return format('-%d%09d', high, low)
end

local function plus(high, low, more_high, more_low)
  high, low = high + more_high, low + more_low
  if low >= GIGA then return high + 1, low - GIGA end
  return high, low
end

local function minus(high, low, less_high, less_low)
  high, low = high - less_high, low - less_low
  if low < 0 then return high - 1, low + GIGA end
  return high, low
end

-- The difference, or zero.
local function above(high, low, less_high, less_low)
  high, low = minus(high, low, less_high, less_low)
  if high < 0 then return 0, 0 end
  return high, low
end

local function less(high, low, than_high, than_low)
  return high < than_high or high == than_high and low < than_low
end

local function least(high, low, other_high, other_low)
  if less(other_high, other_low, high, low) then return other_high, other_low end
  return high, low
end

-- The nearest double to a natural number. The two terms are exact, so that the sum is rounded once.
local function double(high, low)
  local rest = high % 65536
  return (high - rest) * GIGA + (rest * GIGA + low)
end
