# swi-prolog: search, assertions, strings, big numbers.
cat > work.pl <<'P'
queens(N, Qs) :- numlist(1, N, Ns), permutation_safe(Ns, [], Qs).
permutation_safe([], Qs, Qs).
permutation_safe(Ns, Placed, Qs) :- select(Q, Ns, Rest), safe(Q, 1, Placed), permutation_safe(Rest, [Q|Placed], Qs).
safe(_, _, []).
safe(Q, D, [P|Ps]) :- Q =\= P + D, Q =\= P - D, D1 is D + 1, safe(Q, D1, Ps).
:- dynamic fact/2.
main :-
    queens(8, Qs), format("queens ~w~n", [Qs]),
    findall(Q, queens(6, Q), All), length(All, Count), format("all ~w~n", [Count]),
    forall(between(1, 60000, I), (K is I * 7919 mod 1009, assertz(fact(K, I)))),
    aggregate_all(count, fact(17, _), C), format("facts ~w~n", [C]),
    numlist(1, 500, L), foldl([X, A, B]>>(B is A * X), L, 1, F), string_length(F, Length), format("digits ~w~n", [Length]),
    findall(S, (between(1, 20000, I), format(string(S), "~d;", [I])), Ss), atomics_to_string(Ss, T), string_length(T, TL),
    format("text ~w~n", [TL]), retractall(fact(_, _)), garbage_collect, halt.
P
swipl -q -f none -g main work.pl
