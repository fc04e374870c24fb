# make: a large graph with patterns, functions and recursion.
cat > Makefile <<'M'
NAMES := $(shell seq 1 1500)
OBJECTS := $(addsuffix .o,$(addprefix u,$(NAMES)))
all: sum
u%.o:
	@echo $* > $@
sum: $(OBJECTS)
	@cat $^ | awk '{ s += $$1 } END { print "sum", s }'
$(foreach n,$(NAMES),$(eval T$(n) := $(words $(filter %7,$(wordlist 1,$(n),$(NAMES))))))
$(info $(T1500) $(words $(sort $(OBJECTS))))
M
make -s -j 2
make -q && echo 'up to date'
make -p -n all 2>/dev/null | grep -c '^u'
