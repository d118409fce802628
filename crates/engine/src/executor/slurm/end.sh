worker=$! code=127
set +m
if [ -n "$signal" ]; then kill -s "$signal" "$worker" 2>/dev/null; fi
# A signal that arrives ends `wait`, not the worker.
while caught=; wait "$worker"; now=$?; [ "$now" = 127 ] || code=$now; [ -n "$caught" ]; do :; done
kill -s KILL -- "-$worker" 2>/dev/null
exit "$code"
