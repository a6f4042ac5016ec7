-- The leaky bucket as a meter. State: level, an instant. Arguments: burst, rate per second, refill time.

ALGORITHMS.l = {
  header = '32', pattern = '^32|([^|]+)|(%-?%d+)$', kinds = { 'd', 'u' }, names = { 'l', 'ts' },
  arguments = flow_arguments,

  view = function(rule, state)
    local level, high, low = 0, NOW_HIGH, NOW_LOW
    if state then
      level = math.max(0, state[1])
      -- What all quotas of a key share may be fuller than this one could have filled it.
      if rule.own then level = math.min(level, rule.capacity) end
      -- An empty bucket is a fresh key's, whenever it was read.
      if level > 0 then high, low = state[2], state[3] end
    end
    rule.level = math.max(0, level - flow(rule, high, low, level))
  end,

  passes = function(rule, high, low)
    if less(rule.burst_high, rule.burst_low, high, low) then return false end
    return rule.level - (rule.capacity - double(high, low)) <= EPSILON
  end,

  charge = function(rule, high, low)
    rule.level = math.min(rule.capacity, rule.level + double(high, low))
    flow_restart(rule, rule.level)
  end,

  refund = function(rule, high, low)
    rule.level = math.max(0, rule.level - flow_left(rule, high, low))
    flow_restart(rule, rule.level)
  end,

  state = function(rule)
    if rule.level <= 0 then return nil end
    return { rule.level, rule.high, rule.low }, flow_time(rule, rule.level)
  end,
}
