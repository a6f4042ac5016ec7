-- The sliding window counter. State: the counts of the slot before and of this one, `before` and `count`, and the start of
-- this one, `start`. Numbers: `limit`; `length` of the window; `need`, the cost.

--# view
if @found then
  -- A slot that has yet to begin stays; but if the clock stepped far back, it begins now.
  if $start > $SLACK then --own
    $start = 0 --own
    @repaired = true --own
  end --own
  $into = 0 - $start
  if $into >= $length then
    -- One slot has passed.
    $before = $count
    $count = 0
    $into = $into - $length
    $start = $start + $length
    -- Or more than one.
    if $into >= $length then
      $before = 0
    end
  elseif $into < 0 then
    $into = 0
  end
end
if not @found or $before <= 0 and $count <= 0 then
  $before = 0
  $count = 0
  $start = 0
  $into = 0
  @repaired = false
end

--# passes
-- before * (1 - into / length) + count + need - 1 < limit, times the length.
$new = $count + $need
if $new > $limit then
  passes = false
else
  $left = $length - $into
  $most = $limit - $new
  $most = $most + 1
  -- Each product is off by less than 2^-50 of itself: only what is closer than that needs more digits.
  local one, other = double($before) * double($left), double($most) * double($length)
  if one + other < EXACT or one < other - (one + other) / 1e15 or one > other + (one + other) / 1e15 then
    if one >= other then passes = false end
  elseif not rare().product_is_less($before, $left, $most, $length) then
    passes = false
  end
end

--# most
$most = $limit - $count
if $most < 0 then
  $most = 0
elseif $before > 0 then
  $left = $length - $into
  -- What still counts of the slot before, before * left / length, rounded down: so much less passes. A quotient that is not
  -- exact is off by less than 2^-50 of itself: only what is closer than that to a whole number needs more digits.
  local length, product, fades = double($length), double($before) * double($left), false
  if product < EXACT then
    fades = (product - product % length) / length
  else
    local lower, upper = product / length, product / length
    lower, upper = lower - lower / 1e15, upper + upper / 1e15
    lower, upper = lower - lower % 1, upper - upper % 1
    if lower == upper and upper < EXACT then fades = upper end
  end
  if fades then
    $left = pair(fades)
    $most = $most - $left
    if $most < 0 then $most = 0 end
  else
    $most = rare().sliding_most($before, $left, $most, $length)
  end
end

--# need
$need = $COST
$new = $count + $need

--# charge
$count = $new

--# debit
$count = $count + $need
if $count > $UTMOST then $count = $UTMOST end

--# refund
-- It leaves the slot in which it was charged, and no other: what another slot counts fades at another time.
$into = $start - $CHARGED
if $into <= 0 then
  $count = $count - $need
  if $count < 0 then $count = 0 end
elseif $into <= $length then
  $before = $before - $need
  if $before < 0 then $before = 0 end
end

--# state
$left = $start + $length
if $count > 0 then
  $left = $left + $length
  @ttl = millis($left)
else
  @ttl = $before > 0 and millis($left)
end
