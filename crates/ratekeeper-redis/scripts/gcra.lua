-- GCRA. State: the theoretical arrival time, `tat`. The quota is full again when it has passed.
-- Numbers: `refill`, the time of a whole burst; `each`, the emission interval; `need`, the cost times that.

--# view
if not @found or $tat < 0 then
  $tat = 0
elseif $tat > $reach then --own
  $tat = $refill --own
  @repaired = true --own
end

--# passes
$new = $tat + $need
-- A TAT beyond the last instant could not be stored.
if $new > $refill or $new > $END then passes = false end

--# most
$most = $refill
if $most > $END then $most = $END end
$most = $most - $tat
if $most < 0 then
  $most = 0
elseif $COST.high > 0 or $COST.low > 9000000 then
  $most = rare().quotient($most, $each)
else
  -- All of it passes most of the time, which one product tells: of so small a cost it is exact, however long an interval is.
  local low = $COST.low * $each.low
  local rest = low % 1000000000
  $need = $COST.low * $each.high + (low - rest) / 1000000000, rest
  if $need <= $most then
    $most = $COST
  else
    -- The quotient is less than the cost, so that a rounded one is off by one at most, which another product tells.
    local guess = double($most) / double($each)
    guess = guess - guess % 1
    low = guess * $each.low
    rest = low % 1000000000
    $need = guess * $each.high + (low - rest) / 1000000000, rest
    if $need > $most then
      guess = guess - 1
    else
      $need = $most - $need
      if $need >= $each then guess = guess + 1 end
    end
    $most = pair(guess)
  end
end

--# need
if $COST.high > 0 or $COST.low > 9000000 then
  $need = rare().times($COST, $each)
else
  local low = $COST.low * $each.low
  local rest = low % 1000000000
  $need = $COST.low * $each.high + (low - rest) / 1000000000, rest
end
$new = $tat + $need

--# charge
$tat = $new

--# debit
-- One burst below empty, and no further than there is time. What several quotas share may lie further ahead already.
$most = $refill + $refill
if $most > $END then $most = $END end
if $most < $tat then $most = $tat end
$tat = $tat + $need
if $tat > $most then $tat = $most end

--# refund
$need = $need - $AGE
if $need > 0 then
  $tat = $tat - $need
  if $tat < 0 then $tat = 0 end
end

--# state
@ttl = $tat > 0 and millis($tat)
