-- The sliding window log. State: entries { instant, cost }, four numbers each, in one list. Arguments: limit, window.
--
-- The answer does not carry the log, which may be long, but one of two entries that stands for it: whoever reads it
-- sees the same sum, the same end, and the same time at which the cost in question passes.

-- Entries from `first` on, instants no later than one window from now, equal instants joined.
local function log_cut(rule, log, first)
  local cut = {}
  for at = first, #log, 4 do
    local high, low = least(log[at], log[at + 1], rule.most_high, rule.most_low)
    local size = #cut
    if size > 0 and cut[size - 3] == high and cut[size - 2] == low then
      cut[size - 1], cut[size] = plus(cut[size - 1], cut[size], log[at + 2], log[at + 3])
    else
      cut[size + 1], cut[size + 2], cut[size + 3], cut[size + 4] = high, low, log[at + 2], log[at + 3]
    end
  end
  return cut
end

-- Takes an amount from the newest entries.
local function log_return(log, high, low)
  while #log > 0 and (high > 0 or low > 0) do
    local size = #log
    local cost_high, cost_low = log[size - 1], log[size]
    if less(high, low, cost_high, cost_low) then
      log[size - 1], log[size] = minus(cost_high, cost_low, high, low)
      return
    end
    high, low = minus(high, low, cost_high, cost_low)
    log[size], log[size - 1], log[size - 2], log[size - 3] = nil, nil, nil, nil
  end
end

ALGORITHMS.o = {
  header = '71', names = { 'n', 'e' },

  arguments = function(rule, at)
    rule.limit_high, rule.limit_low = natural(ARGV[at])
    rule.window_high, rule.window_low = natural(ARGV[at + 1])
    return at + 2
  end,

  view = function(rule, log)
    log = log or {}
    rule.most_high, rule.most_low = later(NOW_HIGH, NOW_LOW, rule.window_high, rule.window_low)
    local high, low, first, size = NOW_HIGH, NOW_LOW, 1, #log
    if size > 0 then
      local last_high, last_low = log[size - 3], log[size - 2]
      rule.repaired = less(rule.most_high, rule.most_low, last_high, last_low)
      last_high, last_low = least(last_high, last_low, rule.most_high, rule.most_low)
      if less(high, low, last_high, last_low) then high, low = last_high, last_low end
    end
    rule.now_high, rule.now_low = high, low
    -- An entry exactly one window old still counts.
    local edge_high, edge_low = minus(high, low, rule.window_high, rule.window_low)
    while first < size and less(log[first], log[first + 1], edge_high, edge_low) do first = first + 4 end
    rule.used_high, rule.used_low = 0, 0
    for at = first, size, 4 do
      rule.used_high, rule.used_low = plus(rule.used_high, rule.used_low, log[at + 2], log[at + 3])
    end
    rule.log, rule.first = log, first
  end,

  passes = function(rule, high, low)
    high, low = plus(high, low, rule.used_high, rule.used_low)
    return not less(rule.limit_high, rule.limit_low, high, low)
  end,

  charge = function(rule, high, low)
    local log = log_cut(rule, rule.log, rule.first)
    local size = #log
    if size > 0 and log[size - 3] == rule.now_high and log[size - 2] == rule.now_low then
      log[size - 1], log[size] = plus(log[size - 1], log[size], high, low)
    else
      log[size + 1], log[size + 2], log[size + 3], log[size + 4] = rule.now_high, rule.now_low, high, low
    end
    rule.cut = log
  end,

  refund = function(rule, high, low)
    rule.cut = log_cut(rule, rule.log, rule.first)
    log_return(rule.cut, high, low)
  end,

  state = function(rule)
    local log = rule.cut or log_cut(rule, rule.log, rule.first)
    local size = #log
    if size == 0 then return nil end
    local high, low = plus(log[size - 3], log[size - 2], rule.window_high, rule.window_low)
    high, low = plus(high, low, 0, 1)
    return log, minus(high, low, NOW_HIGH, NOW_LOW)
  end,

  fresh = function() return {} end,

  -- The log of at most two entries that answers as this one does about a cost, or about a cost given back.
  brief = function(rule, high, low, is_refund)
    local log, size = rule.log, #rule.log
    if rule.first > size then return nil end
    local amount_high, amount_low
    if is_refund then
      amount_high, amount_low = above(rule.used_high, rule.used_low, high, low)
    else
      amount_high, amount_low = plus(rule.used_high, rule.used_low, high, low)
      amount_high, amount_low = above(amount_high, amount_low, rule.limit_high, rule.limit_low)
    end
    local sum_high, sum_low, at = 0, 0, rule.first
    while at < size do
      sum_high, sum_low = plus(sum_high, sum_low, log[at + 2], log[at + 3])
      if not less(sum_high, sum_low, amount_high, amount_low) then break end
      at = at + 4
    end
    local last_high, last_low = log[size - 3], log[size - 2]
    if at > size or log[at] == last_high and log[at + 1] == last_low then
      return { last_high, last_low, rule.used_high, rule.used_low }
    end
    local rest_high, rest_low = minus(rule.used_high, rule.used_low, sum_high, sum_low)
    return { log[at], log[at + 1], sum_high, sum_low, last_high, last_low, rest_high, rest_low }
  end,
}

-- True if an entry may follow: instants do not descend, a cost is 1 or more, all together fit 63 bits.
local function log_takes(log, sum_high, sum_low, high, low, cost_high, cost_low)
  local size = #log
  if size > 0 and less(high, low, log[size - 3], log[size - 2]) then return nil end
  if cost_high < 0 or cost_high == 0 and cost_low == 0 then return nil end
  sum_high, sum_low = plus(sum_high, sum_low, cost_high, cost_low)
  if less(LAST_HIGH, LAST_LOW, sum_high, sum_low) then return nil end
  log[size + 1], log[size + 2], log[size + 3], log[size + 4] = high, low, cost_high, cost_low
  return sum_high, sum_low
end
