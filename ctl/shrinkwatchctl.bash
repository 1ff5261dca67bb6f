# SPDX-License-Identifier: LGPL-2.1-or-later
# Completion of shrinkwatchctl for bash. Verbs, options and columns stand here too; a test compares them with --help.

# Cgroups whose path begins with the word, a slash behind those with children: below the root of the memory hierarchy, as show takes
# them, or below its mount point when the word begins there.
_shrinkwatchctl_cgroups() {
    local cur=$1 device directory type options rest root='' controllers below directories IFS=$' \t\n'

    while read -r device directory type options rest; do
        case $type in
            cgroup)
                if [[ ,$options, == *,memory,* ]]; then
                    root=$directory
                    break
                fi ;;
            cgroup2)
                controllers=''
                read -r controllers 2>/dev/null <"$directory/cgroup.controllers"
                [[ " $controllers " == *' memory '* ]] && root=$directory ;;
        esac
    done </proc/self/mounts
    [[ $root ]] || return

    # A name may have backslashes ("\x2d" is systemd's "-"): taken off the word here, put before them again in what is offered.
    IFS='' read cur <<<"$cur"
    below=$root
    if [[ $root/ == "$cur"?* && ! $(compgen -d -- "$root$cur") ]]; then
        COMPREPLY=("$root/")
        compopt -o nospace
        return
    fi
    [[ $cur == "$root"/* ]] && below=''
    [[ $cur ]] || cur=/
    mapfile -t directories < <(compgen -d -- "$below$cur")
    for directory in "${directories[@]}"; do
        rest=''
        [[ $(compgen -d -- "$directory/") ]] && rest=/
        printf -v directory %q "${directory#"$below"}$rest"
        COMPREPLY+=("$directory")
    done
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace
}

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
        [estimate]='-m --model= --memcgs'
        [status]=''
        [monitor]=''
        [watch]=''
        [support]='-H --noheadings'
        [config]='-H --noheadings --file= --root='
    )
    local memcg_columns='SERIAL PARENT ID STATE LEVEL NODES SLOTS UNITS ARRAYS OVERHEAD DELTA SUBTREE MEMCGS DYING REFS PINS
        MEMORY SWAP UNIT SLICE MACHINE CONTAINER ENGINE POD PATH'
    local group_columns='COUNT UNITS OVERHEAD CAUSES PATTERN ANCESTOR'

    local verb='' i
    for ((i = 1; i < cword; i++)); do
        case ${words[i]} in
            -s | -n | -w | -o | -m | --sort | --limit | --watch | --columns | --model | --file | --root)
                ((i++)) ;;
            -*) ;;
            *)
                if [[ -v options[${words[i]}] ]]; then
                    verb=${words[i]}
                    break
                fi ;;
        esac
    done

    # The value of an option that the verb refuses is nothing to offer.
    case $prev in
        -[snwom] | --sort | --limit | --watch | --columns | --model | --file | --root)
            [[ $verb && " ${options[$verb]} " != *" $prev"[=\ ]* ]] && return ;;
    esac

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
        --file)
            _filedir
            return ;;
        --root)
            _filedir -d
            return ;;
        -n | --limit | -w | --watch)
            return ;;
    esac
    $split && return

    if [[ $cur == -* ]]; then
        if [[ $verb ]]; then
            # What asks the daemon and nothing else.
            [[ $verb == monitor || $verb == watch ]] && common=${common/ --direct/}
            COMPREPLY=($(compgen -W "${options[$verb]} $common" -- "$cur"))
        else
            COMPREPLY=($(compgen -W "$select $table -m --model= --memcgs --file= --root= $common" -- "$cur"))
        fi
        [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
        return
    fi

    case $verb in
        '')
            COMPREPLY=($(compgen -W "${!options[*]}" -- "$cur")) ;;
        show | watch)
            # Dying ones have no directory: their serials are in the census.
            _shrinkwatchctl_cgroups "$cur" ;;
    esac
} &&
    complete -F _shrinkwatchctl shrinkwatchctl
