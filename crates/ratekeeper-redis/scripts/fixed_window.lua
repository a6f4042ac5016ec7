-- The fixed window. State: count, start.
--
-- Where windows lie is told by the letter:
--   f  each begins with its first request. Arguments: limit, length.
--   m  multiples of a length below 2^53 / 1000 ns. Arguments: limit, length.
--   w  given. Arguments: limit, and the edges of three windows in a row, four instants. Who asks cannot know the
--      server's time: if it lies in neither of the first two windows, it is told the time and asks again.

-- The state as it stands in the window of now, `window` to `end`. `around` tells the window of a later instant.
local function count_in(rule, state, around)
  rule.high, rule.low = 0, 0
  rule.start_high, rule.start_low = rule.window_high, rule.window_low
  rule.stop_high, rule.stop_low = rule.end_high, rule.end_low
  if not state or state[1] == 0 and state[2] == 0 then return end
  if less(state[3], state[4], rule.window_high, rule.window_low) then return end
  rule.high, rule.low = count_of(rule, state[1], state[2])
  if less(state[3], state[4], rule.end_high, rule.end_low) then return end
  -- A window that has yet to begin: a caller came late, and it stays; or the clock stepped far back. Nobody knows what
  -- the window of now had let pass then: all of it.
  local start_high, start_low, stop_high, stop_low = around(rule, state[3], state[4])
  rule.repaired = is_too_far(rule, start_high, start_low)
  if rule.repaired then
    rule.high, rule.low = rule.limit_high, rule.limit_low
  else
    rule.start_high, rule.start_low, rule.stop_high, rule.stop_low = start_high, start_low, stop_high, stop_low
  end
end

local fixed = {
  header = '23', pattern = '^23|1|([^|]+)|(%d+)|(%-?%d+)$', kinds = { 'n', 'i' }, names = { 'c', 's' },

  passes = function(rule, high, low)
    high, low = plus(high, low, rule.high, rule.low)
    return not less(rule.limit_high, rule.limit_low, high, low)
  end,

  charge = function(rule, high, low)
    rule.high, rule.low = plus(rule.high, rule.low, high, low)
  end,

  -- All of it in the same window, and nothing later.
  refund = function(rule, high, low)
    if less(CHARGED_HIGH, CHARGED_LOW, rule.start_high, rule.start_low) then return end
    rule.high, rule.low = above(rule.high, rule.low, high, low)
  end,

  state = function(rule)
    if rule.high == 0 and rule.low == 0 then return nil end
    return { rule.high, rule.low, rule.start_high, rule.start_low },
      minus(rule.stop_high, rule.stop_low, NOW_HIGH, NOW_LOW)
  end,
}

local function kind_of_window(arguments, view)
  return {
    header = fixed.header, pattern = fixed.pattern, kinds = fixed.kinds, names = fixed.names, passes = fixed.passes,
    charge = fixed.charge, refund = fixed.refund, state = fixed.state, arguments = arguments, view = view,
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
      rule.high, rule.low = count_of(rule, state[1], state[2])
      rule.repaired = is_too_far(rule, state[3], state[4])
      if not rule.repaired then start_high, start_low = state[3], state[4] end
    end
  end
  rule.start_high, rule.start_low = start_high, start_low
  rule.stop_high, rule.stop_low = plus(start_high, start_low, rule.length_high, rule.length_low)
end)

-- The window that an instant lies in.
local function on_grid(rule, high, low)
  local length = double(rule.length_high, rule.length_low)
  -- (seconds * 1e9 + nanoseconds) % length, in steps that stay exact.
  local into = high % length
  for _ = 1, 3 do into = into * 1000 % length end
  into = (into + low) % length
  high, low = minus(high, low, floor(into / GIGA), into % GIGA)
  return high, low, plus(high, low, rule.length_high, rule.length_low)
end

ALGORITHMS.m = kind_of_window(length_arguments, function(rule, state)
  rule.window_high, rule.window_low, rule.end_high, rule.end_low = on_grid(rule, NOW_HIGH, NOW_LOW)
  count_in(rule, state, on_grid)
end)

-- The window of an instant after the window of now. These are longer than the slack: one that is not the next is cut
-- off, or else is shared and stays as it is found, for at least as long as it has to live.
local function from_edges(rule, high, low)
  if less(high, low, rule.next_high, rule.next_low) then
    return rule.end_high, rule.end_low, rule.next_high, rule.next_low
  end
  return high, low, high, low
end

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
end, function(rule, state) count_in(rule, state, from_edges) end)
