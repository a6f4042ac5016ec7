-- The token bucket. State: tokens, an instant. Arguments: burst, rate per second, refill time.

ALGORITHMS.t = {
  header = '12', pattern = '^12|([^|]+)|(%-?%d+)$', kinds = { 'd', 'u' }, names = { 't', 'ts' },
  arguments = flow_arguments,

  view = function(rule, state)
    local tokens, high, low = rule.capacity, NOW_HIGH, NOW_LOW
    if state then
      tokens = math.max(0, math.min(state[1], rule.capacity))
      -- A full bucket is a fresh key's, whenever it was counted.
      rule.is_fresh = tokens >= rule.capacity
      if not rule.is_fresh then high, low = state[2], state[3] end
    end
    rule.tokens = math.min(rule.capacity, tokens + flow(rule, high, low, rule.capacity - tokens))
  end,

  passes = function(rule, high, low)
    if less(rule.burst_high, rule.burst_low, high, low) then return false end
    return rule.tokens - double(high, low) >= -EPSILON
  end,

  charge = function(rule, high, low)
    rule.tokens = math.max(0, rule.tokens - double(high, low))
    flow_restart(rule, rule.capacity - rule.tokens)
  end,

  refund = function(rule, high, low)
    rule.tokens = math.min(rule.capacity, rule.tokens + flow_left(rule, high, low))
    flow_restart(rule, rule.capacity - rule.tokens)
  end,

  state = function(rule)
    -- A full bucket is a fresh key's, unless it is what a quota of a larger one shares.
    if rule.tokens >= rule.capacity and (rule.own or not rule.found) then return nil end
    return { rule.tokens, rule.high, rule.low }, flow_time(rule, rule.capacity - rule.tokens)
  end,
}
