-- Whose a state is. `rule.own`: nobody but this rule wrote it. Otherwise all quotas that requests bring for the key
-- share it: it may belong to a longer one, and is honoured as it stands.

-- In seconds: how far a state of one's own may reach beyond a refill (or a window begin ahead of now) before it is cut
-- off.
local SLACK = 1

-- True if an instant lies so far ahead of now that the clock must have stepped back.
local function is_too_far(rule, high, low)
  return rule.own and less(NOW_HIGH + SLACK, NOW_LOW, high, low)
end

-- What a window counted, no more than the limit if nobody else has counted there.
local function count_of(rule, high, low)
  if not rule.own then return high, low end
  return least(high, low, rule.limit_high, rule.limit_low)
end
