-- GCRA. State: tat, an instant. Arguments: burst, emission interval, refill time.

ALGORITHMS.g = {
  header = '42', pattern = '^42|(%-?%d+)$', kinds = { 'i' }, names = { 'tat' },

  arguments = function(rule, at)
    rule.burst_high, rule.burst_low = natural(ARGV[at])
    rule.each_high, rule.each_low = natural(ARGV[at + 1])
    rule.refill_high, rule.refill_low = natural(ARGV[at + 2])
    return at + 3
  end,

  view = function(rule, state)
    local high, low = 0, 0
    if state then high, low = above(state[1], state[2], NOW_HIGH, NOW_LOW) end
    if rule.own and less(rule.refill_high + SLACK, rule.refill_low, high, low) then
      high, low, rule.repaired = rule.refill_high, rule.refill_low, true
    end
    rule.high, rule.low = high, low
  end,

  passes = function(rule, high, low)
    if less(rule.burst_high, rule.burst_low, high, low) then return false end
    high, low = times(high, low, rule.each_high, rule.each_low)
    high, low = plus(high, low, rule.high, rule.low)
    if less(rule.refill_high, rule.refill_low, high, low) then return false end
    -- A TAT beyond the last instant could not be stored.
    high, low = plus(high, low, NOW_HIGH, NOW_LOW)
    return not less(LAST_HIGH, LAST_LOW, high, low)
  end,

  charge = function(rule, high, low)
    high, low = times(high, low, rule.each_high, rule.each_low)
    rule.high, rule.low = plus(rule.high, rule.low, high, low)
  end,

  refund = function(rule, high, low)
    high, low = times(high, low, rule.each_high, rule.each_low)
    high, low = above(high, low, AGE_HIGH, AGE_LOW)
    rule.high, rule.low = above(rule.high, rule.low, high, low)
  end,

  state = function(rule)
    if rule.high == 0 and rule.low == 0 then return nil end
    return { later(NOW_HIGH, NOW_LOW, rule.high, rule.low) }, rule.high, rule.low
  end,
}
