-- The sliding window log. State: `log`, entries { instant, cost }, four numbers each, in one list; instants are the
-- epoch's. Numbers: `limit`; `length` of the window; `need`, the cost; `bound`, how many entries there may be.
--
-- The answer does not carry the log, which may be long, but a `brief` one of up to three entries that stands for it:
-- whoever reads it sees the same sum, the same end, and the same time at which the cost in question passes.

--# view
@rule = log_view(@found and @log or {}, $limit, $length, true) --own
@rule = log_view(@found and @log or {}, $limit, $length, false) --shared
@repaired = @rule.repaired

--# passes
$new = plus($need, @rule.used_high, @rule.used_low)
if $new > $limit then passes = false end

--# most
$most = above($limit, @rule.used_high, @rule.used_low)

--# need
$need = $COST

--# charge
log_charge(@rule, $need)

--# debit
log_debit(@rule, $need, @bound)

--# refund
@rule.cut = log_without(log_cut(@rule), log_gap(@rule, $need, plus($CHARGED, $NOW)))

--# state
@log = @rule.cut or log_cut(@rule)
@ttl = log_lives(@rule, @log)

--# brief
@brief = @found and log_brief(@rule, $need)

--# brief-up-to
-- Of what is granted, one more is told by the same; of what is refused, one may pass earlier.
@brief = @found and (passes and log_brief(@rule, $need) or log_brief_of_two(@rule, 0, 1, $need))

--# brief-debit
@brief = @found and log_brief(@rule, log_after_debit(@rule, $need, @bound, 0, 1))

--# brief-judge
-- After what is counted, about as much again; before anything else, about that.
if not @found then
  @brief = false
elseif IN_FULL == 1 then
  @brief = @log
elseif @action == 2 then
  @brief = log_brief_refund(@rule, $need, $NOW)
elseif @action == 0 then
  @brief = log_brief(@rule, log_after_debit(@rule, $need, @bound, $need))
else
  @brief = log_brief(@rule, $need)
end

--# brief-end
@brief = @found and @log

--# brief-refund
@brief = @found and log_brief_refund(@rule, $need, plus($CHARGED, $NOW))

--# functions
-- Adds an entry: instants do not descend, a cost is 1 or more, all together fit 63 bits. Returns their sum; nothing if
-- it does not fit.
local function log_takes(log, sum_high, sum_low, high, low, cost_high, cost_low)
  local size = #log
  if size > 0 and less(high, low, log[size - 3], log[size - 2]) then return nil end
  if cost_high < 0 or cost_high == 0 and cost_low == 0 then return nil end
  sum_high, sum_low = plus(sum_high, sum_low, cost_high, cost_low)
  if less(LAST_HIGH, LAST_LOW, sum_high, sum_low) then return nil end
  log[size + 1], log[size + 2], log[size + 3], log[size + 4] = high, low, cost_high, cost_low
  return sum_high, sum_low
end

local function log_parse(text)
  local at, stop, entries = find(text, '^71|(%d+)')
  if not at or #entries > 7 then return nil end
  local log, sum_high, sum_low = {}, 0, 0
  for _ = 1, tonumber(entries) do
    local instant, cost
    at, stop, instant, cost = find(text, '^|(%-?%d+)|(%d+)', stop + 1)
    if not at then return nil end
    local high, low = integer(instant)
    local cost_high, cost_low = integer(cost)
    if not high or not cost_high then return nil end
    sum_high, sum_low = log_takes(log, sum_high, sum_low, high, low, cost_high, cost_low)
    if not sum_high then return nil end
  end
  if stop ~= #text then return nil end
  return log
end

local function log_text(log)
  local pieces = { '71|' .. #log / 4 }
  for at = 1, #log, 4 do
    pieces[#pieces + 1] = decimal(log[at], log[at + 1])
    pieces[#pieces + 1] = decimal(log[at + 2], log[at + 3])
  end
  return table.concat(pieces, '|')
end

-- The log as it stands now.
local function log_view(log, limit_high, limit_low, length_high, length_low, is_own)
  local rule = {
    log = log, limit_high = limit_high, limit_low = limit_low, length_high = length_high, length_low = length_low,
    used_high = 0, used_low = 0, repaired = false, cut = false, gap = false,
  }
  local high, low, first, size = NOW_HIGH, NOW_LOW, 1, #log
  if size > 0 then
    local last_high, last_low = log[size - 3], log[size - 2]
    -- Instants so far ahead of now are those of a clock that stepped back.
    rule.repaired = is_own and less(NOW_HIGH + SLACK, NOW_LOW, last_high, last_low)
    if not rule.repaired and less(high, low, last_high, last_low) then high, low = last_high, last_low end
  end
  rule.now_high, rule.now_low = high, low
  -- An entry exactly one window old still counts.
  rule.edge_high, rule.edge_low = minus(high, low, length_high, length_low)
  while first < size and less(log[first], log[first + 1], rule.edge_high, rule.edge_low) do first = first + 4 end
  for at = first, size, 4 do
    rule.used_high, rule.used_low = plus(rule.used_high, rule.used_low, log[at + 2], log[at + 3])
  end
  rule.first = first
  return rule
end

-- Entries that still count, instants no later than now if the clock stepped far back, equal instants joined.
local function log_cut(rule)
  local log, cut = rule.log, {}
  for at = rule.first, #log, 4 do
    local high, low = log[at], log[at + 1]
    if rule.repaired then high, low = least(high, low, NOW_HIGH, NOW_LOW) end
    local size = #cut
    if size > 0 and cut[size - 3] == high and cut[size - 2] == low then
      cut[size - 1], cut[size] = plus(cut[size - 1], cut[size], log[at + 2], log[at + 3])
    else
      cut[size + 1], cut[size + 2], cut[size + 3], cut[size + 4] = high, low, log[at + 2], log[at + 3]
    end
  end
  return cut
end

local function log_charge(rule, high, low)
  local log = log_cut(rule)
  local size = #log
  if size > 0 and log[size - 3] == rule.now_high and log[size - 2] == rule.now_low then
    log[size - 1], log[size] = plus(log[size - 1], log[size], high, low)
  else
    log[size + 1], log[size + 2], log[size + 3], log[size + 4] = rule.now_high, rule.now_low, high, low
  end
  rule.cut = log
end

-- What is left of a debit: all entries together fit 63 bits.
local function log_debited(rule, high, low)
  return least(high, low, minus(LAST_HIGH, LAST_LOW, rule.used_high, rule.used_low))
end

-- If there are as many entries as there may be, the last one moves to now, and what is debited becomes a part of it.
local function log_merge(rule, high, low, bound)
  local log, size, entries = rule.log, #rule.log, 0
  if (high > 0 or low > 0) and not rule.repaired and size - rule.first + 1 >= 4 * bound then
    for at = rule.first, size, 4 do
      if at == rule.first or less(log[at - 4], log[at - 3], log[at], log[at + 1]) then entries = entries + 1 end
    end
    if entries >= bound then log[size - 3], log[size - 2] = rule.now_high, rule.now_low end
  end
end

-- The cost that another one comes to after a debit, seen from before it.
local function log_after_debit(rule, high, low, bound, next_high, next_low)
  high, low = log_debited(rule, high, low)
  log_merge(rule, high, low, bound)
  return plus(high, low, next_high, next_low)
end

-- One entry, however large.
local function log_debit(rule, high, low, bound)
  high, low = log_debited(rule, high, low)
  log_merge(rule, high, low, bound)
  if high > 0 or low > 0 then log_charge(rule, high, low) end
end

-- How long a log counts, in milliseconds; false if it is empty.
local function log_lives(rule, log)
  local size = #log
  if size == 0 then return false end
  local high, low = plus(log[size - 3], log[size - 2], rule.length_high, rule.length_low)
  high, low = plus(high, low, 0, 1)
  high, low = minus(high, low, NOW_HIGH, NOW_LOW)
  return math.max(1, high * 1000 + math.ceil(low / 1000000))
end

-- What a cost is given back of, in units counted from the oldest entry that still counts: up to the instant of the
-- charge, the newest first, and if that is too little, after it, the oldest first. Tells where that begins (`start`),
-- where entries after the instant begin (`from`), and where it ends (`stop`). Kept in the rule: a request gives back one
-- cost.
local function log_gap(rule, high, low, charged_high, charged_low)
  if rule.gap then return rule.gap end
  local log, size = rule.log, #rule.log
  local from_high, from_low = 0, 0
  for at = rule.first, size, 4 do
    local at_high, at_low = log[at], log[at + 1]
    if rule.repaired then at_high, at_low = least(at_high, at_low, NOW_HIGH, NOW_LOW) end
    if less(charged_high, charged_low, at_high, at_low) then break end
    from_high, from_low = plus(from_high, from_low, log[at + 2], log[at + 3])
  end
  -- An entry that has left the window takes nothing with it.
  if less(charged_high, charged_low, rule.edge_high, rule.edge_low) then high, low = 0, 0 end
  local before_high, before_low = least(from_high, from_low, high, low)
  local after_high, after_low = minus(high, low, before_high, before_low)
  local rest_high, rest_low = minus(rule.used_high, rule.used_low, from_high, from_low)
  after_high, after_low = least(after_high, after_low, rest_high, rest_low)
  local start_high, start_low = minus(from_high, from_low, before_high, before_low)
  local stop_high, stop_low = plus(from_high, from_low, after_high, after_low)
  rule.gap = {
    start_high = start_high, start_low = start_low, from_high = from_high, from_low = from_low,
    stop_high = stop_high, stop_low = stop_low,
  }
  return rule.gap
end

-- Takes the units of a gap out of a log.
local function log_without(log, gap)
  local left, sum_high, sum_low = {}, 0, 0
  for at = 1, #log, 4 do
    local cost_high, cost_low = log[at + 2], log[at + 3]
    local next_high, next_low = plus(sum_high, sum_low, cost_high, cost_low)
    -- What of this entry lies before the gap, and after it.
    local before_high, before_low = above(gap.start_high, gap.start_low, sum_high, sum_low)
    before_high, before_low = least(before_high, before_low, cost_high, cost_low)
    local after_high, after_low = above(next_high, next_low, gap.stop_high, gap.stop_low)
    after_high, after_low = least(after_high, after_low, cost_high, cost_low)
    cost_high, cost_low = plus(before_high, before_low, after_high, after_low)
    if cost_high > 0 or cost_low > 0 then
      local size = #left
      left[size + 1], left[size + 2], left[size + 3], left[size + 4] = log[at], log[at + 1], cost_high, cost_low
    end
    sum_high, sum_low = next_high, next_low
  end
  return left
end

-- The instant of the entry in which so many units are reached, the last one if they are not; and how many units there
-- are up to its end.
local function log_reaches(rule, high, low)
  local log, last, sum_high, sum_low = rule.log, #rule.log - 3, 0, 0
  for at = rule.first, last, 4 do
    sum_high, sum_low = plus(sum_high, sum_low, log[at + 2], log[at + 3])
    if at == last or not less(sum_high, sum_low, high, low) then
      return log[at], log[at + 1], sum_high, sum_low
    end
  end
end

-- A log of a few entries, those of nothing left out.
local function log_of(...)
  local log, given = {}, { ... }
  for at = 1, #given, 4 do
    if given[at + 2] > 0 or given[at + 3] > 0 then
      for field = at, at + 3 do log[#log + 1] = given[field] end
    end
  end
  return log
end

-- How many units must leave the window for a cost to pass.
local function log_amount(rule, high, low)
  high, low = plus(rule.used_high, rule.used_low, high, low)
  return above(high, low, rule.limit_high, rule.limit_low)
end

-- The log of a few entries that answers as this one does about a cost.
local function log_brief(rule, high, low)
  local log, size = rule.log, #rule.log
  if rule.first > size then return nil end
  local at_high, at_low, sum_high, sum_low = log_reaches(rule, log_amount(rule, high, low))
  local rest_high, rest_low = minus(rule.used_high, rule.used_low, sum_high, sum_low)
  return log_of(at_high, at_low, sum_high, sum_low, log[size - 3], log[size - 2], rest_high, rest_low)
end

-- The same about two costs, of which the first is no more than the second.
local function log_brief_of_two(rule, less_high, less_low, high, low)
  local log, size = rule.log, #rule.log
  if rule.first > size then return nil end
  local at_high, at_low, sum_high, sum_low = log_reaches(rule, log_amount(rule, less_high, less_low))
  local then_high, then_low, all_high, all_low = log_reaches(rule, log_amount(rule, high, low))
  local more_high, more_low = minus(all_high, all_low, sum_high, sum_low)
  local rest_high, rest_low = minus(rule.used_high, rule.used_low, all_high, all_low)
  return log_of(at_high, at_low, sum_high, sum_low, then_high, then_low, more_high, more_low,
    log[size - 3], log[size - 2], rest_high, rest_low)
end

-- The same about a cost given back: what stays up to the instant of the charge, what goes of it, and what lies after that
-- instant. If none of that is left, the last of what stays tells until when the log counts.
local function log_brief_refund(rule, high, low, charged_high, charged_low)
  local log, size = rule.log, #rule.log
  if rule.first > size then return nil end
  local gap = log_gap(rule, high, low, charged_high, charged_low)
  local start_high, start_low, from_high, from_low = gap.start_high, gap.start_low, gap.from_high, gap.from_low
  local stays_high, stays_low = log_reaches(rule, start_high, start_low)
  local goes_high, goes_low = log_reaches(rule, from_high, from_low)
  local amount_high, amount_low = minus(from_high, from_low, start_high, start_low)
  local rest_high, rest_low = minus(rule.used_high, rule.used_low, from_high, from_low)
  return log_of(stays_high, stays_low, start_high, start_low, goes_high, goes_low, amount_high, amount_low,
    log[size - 3], log[size - 2], rest_high, rest_low)
end

--# functions binary
local function log_unpack(count, entries)
  local high, low = unpack_integer(count, 1)
  if #entries % 16 ~= 0 or high ~= 0 or low * 16 ~= #entries then return nil end
  local log, sum_high, sum_low = {}, 0, 0
  for at = 1, #entries, 16 do
    high, low = unpack_integer(entries, at)
    local cost_high, cost_low = unpack_integer(entries, at + 8)
    sum_high, sum_low = log_takes(log, sum_high, sum_low, high, low, cost_high, cost_low)
    if not sum_high then return nil end
  end
  return log
end

-- The contents of the two fields.
local function log_pack(log)
  local entries = {}
  for at = 1, #log, 2 do entries[#entries + 1] = pack_integer(log[at], log[at + 1]) end
  return pack_integer(0, #log / 4), table.concat(entries)
end
