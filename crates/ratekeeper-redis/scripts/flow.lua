-- What moves at a constant rate since an instant: tokens that come, a level that goes.

-- True if a state of the rule's own, of which so much must move from an instant on until it equals a fresh key's, does
-- so later than a refill and the slack from now.
local function flows_too_far(rule, high, low, missing)
  if not rule.own or not less(NOW_HIGH, NOW_LOW, high, low) then return false end
  local ahead = double(minus(high, low, NOW_HIGH, NOW_LOW))
  return ahead + missing * 1e9 / rule.rate > double(rule.refill_high, rule.refill_low) + SLACK * 1e9
end

-- Sets the instant, and tells how much has moved since. What lies too far ahead is cut off: what is missing moves from
-- now on.
local function flow(rule, high, low, missing)
  if flows_too_far(rule, high, low, missing) then high, low, rule.repaired = NOW_HIGH, NOW_LOW, true end
  local moved = 0
  if less(high, low, NOW_HIGH, NOW_LOW) then
    -- In this order: the engine does the same operations, and gets the same bits.
    moved = double(minus(NOW_HIGH, NOW_LOW, high, low)) * rule.rate / 1e9
    high, low = NOW_HIGH, NOW_LOW
  end
  rule.high, rule.low = high, low
  return moved
end

-- So much is missing now. What would be cut off the next time, because a clock that stepped back is so far behind, is
-- at once.
local function flow_restart(rule, missing)
  if flows_too_far(rule, rule.high, rule.low, missing) then rule.high, rule.low = NOW_HIGH, NOW_LOW end
end

-- How long until so much has moved. A formula in floating point is off by some units in the last place, so this is
-- a little too long: state that lives longer than it counts is only a fresh key's.
local function flow_time(rule, amount)
  local high, low = minus(rule.high, rule.low, NOW_HIGH, NOW_LOW)
  local span = amount * 1e9 / rule.rate * (1 + 1e-12)
  local seconds = floor(span / GIGA)
  -- Beyond what can be counted: the longest there is.
  if seconds >= LAST_HIGH then return LAST_HIGH, 0 end
  return plus(high, low, seconds, math.max(0, math.min(GIGA - 1, math.ceil(span - seconds * GIGA))))
end

local function flow_arguments(rule, at)
  rule.burst_high, rule.burst_low = natural(ARGV[at])
  rule.capacity = double(rule.burst_high, rule.burst_low)
  rule.rate = tonumber(ARGV[at + 1])
  rule.refill_high, rule.refill_low = natural(ARGV[at + 2])
  return at + 3
end

-- What is left of a cost that began to flow back when it was charged; nothing if all has.
local function flow_left(rule, high, low)
  return math.max(0, double(high, low) - double(AGE_HIGH, AGE_LOW) * rule.rate / 1e9)
end

-- A cost within 1e-9 of what there is passes.
local EPSILON = 1e-9
