# gdb: breakpoints, a backtrace, values of a program with debugging information.
cat > victim.c <<'C'
#include <stdlib.h>
#include <string.h>
struct node { int value; struct node *next; };
static struct node *push(struct node *list, int value)
{
    struct node *n = malloc(sizeof *n);
    n->value = value;
    n->next = list;
    return n;
}
static int depth(struct node *n) { return n ? 1 + depth(n->next) : 0; }
int main(void)
{
    struct node *list = NULL;
    for (int i = 0; i < 500; i++)
        list = push(list, i * i);
    return depth(list) == 500 ? 0 : 1;
}
C
gcc -g -O0 victim.c -o victim
gdb -nx -q -batch -ex 'set width 0' -ex 'break depth if n == 0' -ex 'tbreak push if value == 10000' -ex run \
    -ex 'print value' -ex 'print list->value' -ex 'print *list->next->next' -ex continue -ex 'backtrace 3' -ex 'backtrace -2' \
    -ex 'up' -ex 'print n->value' -ex 'info line push' -ex 'ptype struct node' -ex 'delete' -ex continue ./victim 2>&1 |
    sed -E 's/0x[0-9a-f]+/ADDRESS/g; s/process [0-9]+/process N/; /thread_db|host libthread|Using host/d'
