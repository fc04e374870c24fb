# bison, flex and m4: a calculator, made, compiled and used.
cat > calc.y <<'Y'
%{
#include <stdio.h>
int yylex(void);
void yyerror(const char *s) { printf("error: %s\n", s); }
%}
%define api.value.type {long}
%token NUMBER
%left '+' '-'
%left '*' '/'
%%
input: %empty | input line;
line: '\n' | expression '\n' { printf("%ld\n", $1); };
expression: NUMBER | expression '+' expression { $$ = $1 + $3; } | expression '-' expression { $$ = $1 - $3; }
    | expression '*' expression { $$ = $1 * $3; } | expression '/' expression { $$ = $1 / $3; } | '(' expression ')' { $$ = $2; };
%%
int main(void) { return yyparse(); }
Y
cat > calc.l <<'L'
%option noyywrap nounput noinput
%{
#include <stdlib.h>
#include "calc.tab.h"
extern long yylval;
%}
%%
[0-9]+ { yylval = atol(yytext); return NUMBER; }
[ \t]+ ;
\n|. { return yytext[0]; }
L
bison -d -v calc.y
sed -i 's/extern long yylval;//' calc.l
flex -o calc.lex.c calc.l
sha256sum calc.output
gcc calc.tab.c calc.lex.c -o calc
for i in $(seq 1 400); do echo "($i + 2) * $((i % 7 + 1)) - $i / 3"; done | ./calc | sha256sum
m4 <<'M' | sha256sum
define(`forloop', `pushdef(`$1', `$2')_forloop($@)popdef(`$1')')dnl
define(`_forloop', `$4`'ifelse($1, `$3', `', `define(`$1', incr($1))$0($@)')')dnl
forloop(`i', 1, 3000, `i eval(i * i % 97) ')
M
