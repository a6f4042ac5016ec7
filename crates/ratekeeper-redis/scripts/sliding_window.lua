-- The sliding window counter. State: previous count, current count, start of the slot. Arguments: limit, window.

ALGORITHMS.s = {
  header = '61', pattern = '^61|(%d+)|(%d+)|(%-?%d+)$', kinds = { 'n', 'n', 'i' }, names = { 'p', 'c', 's' },

  arguments = function(rule, at)
    rule.limit_high, rule.limit_low = natural(ARGV[at])
    rule.window_high, rule.window_low = natural(ARGV[at + 1])
    return at + 2
  end,

  view = function(rule, state)
    rule.before_high, rule.before_low, rule.high, rule.low = 0, 0, 0, 0
    rule.start_high, rule.start_low, rule.into_high, rule.into_low = NOW_HIGH, NOW_LOW, 0, 0
    if not state then return end
    local window_high, window_low = rule.window_high, rule.window_low
    local previous_high, previous_low = count_of(rule, state[1], state[2])
    local current_high, current_low = count_of(rule, state[3], state[4])
    local start_high, start_low = state[5], state[6]
    -- A slot that has yet to begin stays; but if the clock stepped far back, it begins now.
    local repaired = is_too_far(rule, start_high, start_low)
    if repaired then start_high, start_low = NOW_HIGH, NOW_LOW end
    local since_high, since_low = above(NOW_HIGH, NOW_LOW, start_high, start_low)
    if not less(since_high, since_low, window_high, window_low) then
      -- One slot has passed.
      previous_high, previous_low, current_high, current_low = current_high, current_low, 0, 0
      since_high, since_low = minus(since_high, since_low, window_high, window_low)
      start_high, start_low = plus(start_high, start_low, window_high, window_low)
      -- Or more than one.
      if not less(since_high, since_low, window_high, window_low) then return end
    end
    if previous_high == 0 and previous_low == 0 and current_high == 0 and current_low == 0 then return end
    rule.before_high, rule.before_low, rule.high, rule.low = previous_high, previous_low, current_high, current_low
    rule.start_high, rule.start_low, rule.into_high, rule.into_low = start_high, start_low, since_high, since_low
    rule.repaired = repaired
  end,

  -- previous * (1 - into / window) + current + cost - 1 < limit, times the window.
  passes = function(rule, high, low)
    high, low = plus(high, low, rule.high, rule.low)
    if less(rule.limit_high, rule.limit_low, high, low) then return false end
    high, low = minus(rule.limit_high, rule.limit_low, high, low)
    high, low = plus(high, low, 0, 1)
    local left_high, left_low = minus(rule.window_high, rule.window_low, rule.into_high, rule.into_low)
    return product_is_less(rule.before_high, rule.before_low, left_high, left_low,
      high, low, rule.window_high, rule.window_low)
  end,

  charge = function(rule, high, low)
    rule.high, rule.low = plus(rule.high, rule.low, high, low)
  end,

  -- It leaves the slot in which it was charged, and no other: what another slot counts fades at another time.
  refund = function(rule, high, low)
    local back_high, back_low = minus(rule.start_high, rule.start_low, CHARGED_HIGH, CHARGED_LOW)
    if back_high < 0 or back_high == 0 and back_low == 0 then
      rule.high, rule.low = above(rule.high, rule.low, high, low)
    elseif not less(rule.window_high, rule.window_low, back_high, back_low) then
      rule.before_high, rule.before_low = above(rule.before_high, rule.before_low, high, low)
    end
  end,

  state = function(rule)
    local high, low = plus(rule.start_high, rule.start_low, rule.window_high, rule.window_low)
    if rule.high > 0 or rule.low > 0 then
      high, low = plus(high, low, rule.window_high, rule.window_low)
    elseif rule.before_high == 0 and rule.before_low == 0 then
      return nil
    end
    return { rule.before_high, rule.before_low, rule.high, rule.low, rule.start_high, rule.start_low },
      minus(high, low, NOW_HIGH, NOW_LOW)
  end,
}
