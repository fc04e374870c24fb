# erlang: processes, maps, binaries, ets.
erl -noshell -noinput -eval '
Self = self(),
Pids = [spawn(fun() -> Self ! {N, lists:sum([X * N rem 97 || X <- lists:seq(1, 4000)])} end) || N <- lists:seq(1, 200)],
Sums = [receive {N, S} -> S end || N <- lists:seq(1, length(Pids))],
io:format("sums ~p ~p~n", [length(Sums), lists:sum(Sums)]),
T = ets:new(t, [set, public]),
[ets:insert(T, {I * 7919 rem 50021, integer_to_binary(I)}) || I <- lists:seq(1, 30000)],
io:format("table ~p ~p~n", [ets:info(T, size), ets:lookup(T, 17)]),
B = iolist_to_binary([[integer_to_list(I), $,] || I <- lists:seq(1, 100000)]),
io:format("binary ~p ~p~n", [byte_size(B), erlang:crc32(B)]),
Z = zlib:compress(B),
io:format("same ~p~n", [zlib:uncompress(Z) =:= B]),
M = maps:from_list([{I, I * I} || I <- lists:seq(1, 50000)]),
io:format("map ~p~n", [maps:fold(fun(_, V, A) -> (A + V) rem 1000007 end, 0, M)]),
halt().'
