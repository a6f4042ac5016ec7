-- What windows and logs do about states that are the rule's own, and that are not.

-- True if an instant lies so far ahead of now that the clock must have stepped back.
local function is_too_far(rule, high, low)
  return rule.own and less(NOW_HIGH + SLACK, NOW_LOW, high, low)
end

-- What a window counted, no more than the limit if nobody else has counted there.
local function count_of(rule, high, low)
  if not rule.own then return high, low end
  return least(high, low, rule.limit_high, rule.limit_low)
end
