# SPDX-License-Identifier: LGPL-2.1-or-later
# Completion of shrinkwatchctl for bash. Verbs, options and columns stand here too; a test compares them with --help.

_shrinkwatchctl() {
    local cur prev words cword split
    _init_completion -s || return

    local common='-b --bytes -J --json --direct -h --help -V --version'
    local table='-o --columns= -H --noheadings'
    local select='-d --dying -l --live -s --sort= -n --limit= -w --watch='
    local -A options=(
        [census]="$select $table"
        [top]="$select $table"
        [show]=''
        [creators]="-n --limit= $table"
        [estimate]='-m --model='
        [support]='-H --noheadings'
    )
    local memcg_columns='SERIAL PARENT ID STATE LEVEL NODES SLOTS UNITS ARRAYS OVERHEAD DELTA SUBTREE MEMCGS DYING REFS PINS
        MEMORY SWAP UNIT SLICE MACHINE CONTAINER ENGINE POD PATH'
    local group_columns='COUNT UNITS OVERHEAD CAUSES PATTERN ANCESTOR'

    local verb='' i
    for ((i = 1; i < cword; i++)); do
        case ${words[i]} in
            -s | -n | -w | -o | -m | --sort | --limit | --watch | --columns | --model)
                ((i++)) ;;
            -*) ;;
            *)
                if [[ -v options[${words[i]}] ]]; then
                    verb=${words[i]}
                    break
                fi ;;
        esac
    done

    local columns=$memcg_columns
    [[ $verb == creators ]] && columns=$group_columns
    case $prev in
        -s | --sort)
            COMPREPLY=($(compgen -W "$columns" -- "${cur^^}"))
            return ;;
        -o | --columns)
            # A list: what is complete stays in front.
            local done=''
            [[ $cur == *,* ]] && done=${cur%,*},
            cur=${cur##*,}
            COMPREPLY=($(compgen -P "$done" -W "$columns" -- "${cur^^}"))
            compopt -o nospace
            return ;;
        -m | --model)
            COMPREPLY=($(compgen -W 'memcgs=,nodes=,ids=' -- "$cur"))
            compopt -o nospace
            return ;;
        -n | --limit | -w | --watch)
            return ;;
    esac
    $split && return

    if [[ $cur == -* ]]; then
        if [[ $verb ]]; then
            COMPREPLY=($(compgen -W "${options[$verb]} $common" -- "$cur"))
        else
            COMPREPLY=($(compgen -W "$select $table -m --model= $common" -- "$cur"))
        fi
        [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
        return
    fi

    case $verb in
        '')
            COMPREPLY=($(compgen -W "${!options[*]}" -- "$cur")) ;;
        show)
            # Directories of the hierarchy; dying ones have none, their serials are in the census.
            _filedir -d ;;
    esac
} &&
    complete -F _shrinkwatchctl shrinkwatchctl
