-- A position settled before (in a part, or by a handler's transaction) is rare: only then the dearer form.
begin
  {{rows_plain}}
exception when unique_violation then
  {{rows_conflict}}
end;
