# Bash completion of the hakmem command. Installed as bash-completion/completions/hakmem, or read by
# `source`. Never runs hakmem; without the package bash-completion the arguments of `hakmem run`
# complete as file names.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash

# Fills COMPREPLY with those of the given words that begin with what is typed.
_hakmem_offer() {
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "${COMP_WORDS[COMP_CWORD]}")
}

# The commands of hakmem itself, and NAME for each program hakmem-NAME on PATH.
_hakmem_commands() {
    local name
    printf '%s\n' run record replay stat samples ask doctor explain version help
    while read -r name; do
        printf '%s\n' "${name#hakmem-}"
    done < <(compgen -c hakmem- | sort -u)
}

# The place of the program among the words of `hakmem run` and `hakmem record`: the first that is no option.
_hakmem_run_program() {
    local i=2
    while ((i < COMP_CWORD)); do
        case "${COMP_WORDS[i]}" in
            --) ((i++)) && break ;;
            --lib | -o | --output) ((i += 2)) ;;
            -*) ((i++)) ;;
            *) break ;;
        esac
    done
    printf '%d\n' "$i"
}

# With the options, of which --lib and --output take a file.
_hakmem_run() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} program
    program=$(_hakmem_run_program)
    if [[ $previous =~ ^(--lib|-o|--output)$ && $program -ge $COMP_CWORD ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    elif [[ $current == -* && $program -ge $COMP_CWORD && $previous != -- ]]; then
        _hakmem_offer "$1"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$program"
    elif ((program >= COMP_CWORD)); then
        mapfile -t COMPREPLY < <(compgen -c -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}

_hakmem_replay() {
    local current=${COMP_WORDS[COMP_CWORD]}
    case "${COMP_WORDS[COMP_CWORD - 1]}" in
        --touch) _hakmem_offer 'none pages all' ;;
        --only | --rounds | --window) ;;
        *)
            if [[ $current == -* ]]; then
                _hakmem_offer '--lib --only --rounds --touch --window --json --help'
            else
                mapfile -t COMPREPLY < <(compgen -f -- "$current")
            fi
            ;;
    esac
}

# Options, or processes that run with hakmem, with $2 also files; behind -- a command. The word before is no option that
# takes a value.
_hakmem_process() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    if [[ " ${COMP_WORDS[*]:2:COMP_CWORD-2} " == *" -- "* ]]; then
        mapfile -t COMPREPLY < <(compgen -c -f -- "$current")
        return
    fi
    case "$previous" in
        -o | --output | --load | --root) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        --view) _hakmem_offer 'classes threads sites stages memory locks' ;;
        --by) _hakmem_offer 'class fill age owner' ;;
        -d | --delay | -n | --iterations | --limit | --sort | --interval | --for) ;;
        *)
            if [[ $current == -* ]]; then
                _hakmem_offer "$1"
            elif [[ -n ${2-} && -n $current && $current != [0-9]* ]]; then
                mapfile -t COMPREPLY < <(compgen -f -- "$current")
            else
                _hakmem_offer "$(grep -l /libhakmem /proc/[0-9]*/maps 2>/dev/null | cut -d/ -f3)"
            fi
            ;;
    esac
}

_hakmem() {
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        _hakmem_offer "$(_hakmem_commands) --help --version"
        return
    fi
    case "${COMP_WORDS[1]}" in
        run) _hakmem_run '--stats --hardened --lib --check --dry-run --force --help --' ;;
        record) _hakmem_run '--output --force --help --' ;;
        replay) _hakmem_replay ;;
        stat) _hakmem_process '--json --openmetrics --superslabs --samples --watch --output --peak --help --' files ;;
        doctor) _hakmem_process '--json --all --root --help --' ;;
        explain) _hakmem_process '--json --help' files ;;
        samples) _hakmem_process '--help' files ;;
        ask) _hakmem_process '--wait --help' ;;
        prof)
            if ((COMP_CWORD == 2)); then
                _hakmem_offer "start stop dump top diff folded html pprof --help"
            else
                _hakmem_process '--output --value --limit --period --wait --help' files
            fi
            ;;
        help) ((COMP_CWORD == 2)) && _hakmem_offer "$(_hakmem_commands)" ;;
        bench)
            if [[ ${COMP_WORDS[COMP_CWORD]} == -* ]]; then
                _hakmem_offer "--quick --rounds --only --skip --allocators --lib --program --build --strace --callgrind --output --timeout --help"
            else
                _hakmem_offer "list compare report docs learn learn-docs bounds bounds-docs drawn drawn-docs shapes shapes-docs latency latency-docs"
            fi
            ;;
        policy)
            if ((COMP_CWORD == 2)); then
                _hakmem_offer "show diff merge check --help"
            else
                mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
            fi
            ;;
        tune)
            if [[ ${COMP_WORDS[COMP_CWORD]} == -* ]]; then
                _hakmem_offer "--output --rounds --touch --help"
            else
                mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
            fi
            ;;
        timeline) _hakmem_process '--output --interval --for --help' files ;;
        top) _hakmem_process '--delay --batch --iterations --once --view --sort --help' ;;
        map) _hakmem_process '--png --html --json --output --by --limit --load --help' files ;;
        version) ;;
        *) mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}") ;;
    esac
}

complete -o filenames -F _hakmem hakmem
