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
else
  local room, each = double($most), double($each)
  if room < EXACT then
    $most = pair((room - room % each) / each)
  else
    $most = rare().quotient($most, $each)
  end
end

--# need
local product = double($COST) * double($each)
if product < EXACT then
  $need = pair(product)
else
  $need = rare().times($COST, $each)
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
