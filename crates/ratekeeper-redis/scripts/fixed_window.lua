-- The fixed window. State: count, start.
--
-- Where windows lie is told by the letter:
--   f  each begins with its first request. Arguments: limit, length.
--   m  multiples of a length below 2^53 / 1000 ns. Arguments: limit, length.
--   w  given. Arguments: limit, and the edges of three windows in a row, four instants. Who asks cannot know the
--      server's time: if it lies in neither of the first two windows, it is told the time and asks again.

-- The state as it stands in the window that begins at `high, low` and ends before the next one does.
local function count_in(rule, state)
  local count_high, count_low = 0, 0
  rule.start_high, rule.start_low = rule.window_high, rule.window_low
  rule.stop_high, rule.stop_low = rule.end_high, rule.end_low
  if state and not less(state[3], state[4], rule.window_high, rule.window_low) then
    count_high, count_low = least(state[1], state[2], rule.limit_high, rule.limit_low)
    if (count_high > 0 or count_low > 0) and not less(state[3], state[4], rule.end_high, rule.end_low) then
      -- The clock stepped back: its window stays, but no further ahead than the one after this.
      rule.start_high, rule.start_low = rule.end_high, rule.end_low
      rule.stop_high, rule.stop_low = rule.next_high, rule.next_low
      rule.repaired = not less(state[3], state[4], rule.next_high, rule.next_low)
    end
  end
  rule.high, rule.low = count_high, count_low
end

local fixed = {
  header = '23', kinds = { 'n', 'i' }, names = { 'c', 's' },

  passes = function(rule, high, low)
    high, low = plus(high, low, rule.high, rule.low)
    return not less(rule.limit_high, rule.limit_low, high, low)
  end,

  charge = function(rule, high, low)
    rule.high, rule.low = plus(rule.high, rule.low, high, low)
  end,

  refund = function(rule, high, low)
    rule.high, rule.low = above(rule.high, rule.low, high, low)
  end,

  state = function(rule)
    if rule.high == 0 and rule.low == 0 then return nil end
    return { rule.high, rule.low, rule.start_high, rule.start_low },
      minus(rule.stop_high, rule.stop_low, NOW_HIGH, NOW_LOW)
  end,

  fresh = function() return { 0, 0, NOW_HIGH, NOW_LOW } end,
}

local function kind_of_window(arguments, view)
  return {
    header = fixed.header, kinds = fixed.kinds, names = fixed.names, passes = fixed.passes,
    charge = fixed.charge, refund = fixed.refund, state = fixed.state, fresh = fixed.fresh,
    arguments = arguments, view = view,
  }
end

local function length_arguments(rule, at)
  rule.limit_high, rule.limit_low = natural(ARGV[at])
  rule.length_high, rule.length_low = natural(ARGV[at + 1])
  return at + 2
end

ALGORITHMS.f = kind_of_window(length_arguments, function(rule, state)
  local start_high, start_low = NOW_HIGH, NOW_LOW
  rule.high, rule.low = 0, 0
  if state and (state[1] > 0 or state[2] > 0) then
    local high, low = above(NOW_HIGH, NOW_LOW, state[3], state[4])
    if less(high, low, rule.length_high, rule.length_low) then
      rule.high, rule.low = least(state[1], state[2], rule.limit_high, rule.limit_low)
      start_high, start_low = later(NOW_HIGH, NOW_LOW, rule.length_high, rule.length_low)
      rule.repaired = less(start_high, start_low, state[3], state[4])
      start_high, start_low = least(start_high, start_low, state[3], state[4])
    end
  end
  rule.start_high, rule.start_low = start_high, start_low
  rule.stop_high, rule.stop_low = plus(start_high, start_low, rule.length_high, rule.length_low)
end)

ALGORITHMS.m = kind_of_window(length_arguments, function(rule, state)
  local length = double(rule.length_high, rule.length_low)
  -- (seconds * 1e9 + nanoseconds) % length, in steps that stay exact.
  local into = NOW_HIGH % length
  for _ = 1, 3 do into = into * 1000 % length end
  into = (into + NOW_LOW) % length
  rule.window_high, rule.window_low = minus(NOW_HIGH, NOW_LOW, floor(into / GIGA), into % GIGA)
  rule.end_high, rule.end_low = plus(rule.window_high, rule.window_low, rule.length_high, rule.length_low)
  rule.next_high, rule.next_low = plus(rule.end_high, rule.end_low, rule.length_high, rule.length_low)
  count_in(rule, state)
end)

ALGORITHMS.w = kind_of_window(function(rule, at)
  rule.limit_high, rule.limit_low = natural(ARGV[at])
  local second_high, second_low = integer(ARGV[at + 2])
  if less(NOW_HIGH, NOW_LOW, second_high, second_low) then
    rule.window_high, rule.window_low = integer(ARGV[at + 1])
    rule.end_high, rule.end_low = second_high, second_low
    rule.next_high, rule.next_low = integer(ARGV[at + 3])
  else
    rule.window_high, rule.window_low = second_high, second_low
    rule.end_high, rule.end_low = integer(ARGV[at + 3])
    rule.next_high, rule.next_low = integer(ARGV[at + 4])
  end
  if less(NOW_HIGH, NOW_LOW, rule.window_high, rule.window_low)
    or not less(NOW_HIGH, NOW_LOW, rule.end_high, rule.end_low) then
    OTHER_WINDOW = true
  end
  return at + 5
end, count_in)
