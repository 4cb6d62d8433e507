# Puts back the container that served before a change which nobody finished: removes the new one, gives the old
# one its name and its networks back, and starts it. Safe to repeat; a new one that has passed its gate stays.
# Arguments: name, old, next (the names it may stand under), deployment, release (of the new one), networks
# (separated by spaces), settling_s (how long a stop that was begun may still be at work).
set -eu

field() {
    docker inspect --type container --format "$2" "$1" 2>/dev/null || true
}
is_new() {
    [ "$(field "$1" '{{ index .Config.Labels "io.cpudeploy.deployment" }}/{{ index .Config.Labels "io.cpudeploy.release" }}')" = "$deployment/$release" ]
}
ours() {
    [ "$(field "$1" '{{ index .Config.Labels "io.cpudeploy.deployment" }}')" = "$deployment" ]
}
running() {
    [ "$(field "$1" '{{ .State.Running }}')" = true ]
}

# An engine that is just starting is waited for: without it nothing can be told.
tries=0
until docker version >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -le 120 ] || { echo "the engine does not answer"; exit 1; }
    sleep 1
done

if is_new "$name" && [ "$(field "$name" '{{ .HostConfig.RestartPolicy.Name }}')" != no ]; then
    echo "$name has passed its gate and stays"
    exit 0
fi
for each in "$next" "$name"; do
    if is_new "$each"; then
        docker rm --force --volumes "$each" >/dev/null
        echo "removed the new $each"
    fi
done
if ! ours "$name"; then
    if ! ours "$old"; then
        docker version >/dev/null 2>&1 || { echo "the engine does not answer any more"; exit 1; }
        echo "nothing is kept of $name"
        exit 0
    fi
    docker rename "$old" "$name"
    echo "put back $name"
fi
for network in $networks; do
    connected=$(field "$name" '{{ range $key, $_ := .NetworkSettings.Networks }} {{ $key }} {{ end }}')
    case $connected in
    *" $network "*) ;;
    *) docker network connect "$network" "$name" && echo "connected $name to $network" || echo "could not connect $name to $network" ;;
    esac
done
# A stop that was under way when its controller died ends only now: a start before its end would do nothing.
# By its id: its name was that of others before.
id=$(field "$name" '{{ .Id }}')
if running "$name" && [ -n "$(docker events --since "${settling_s}s" --until 0s --filter "container=$id" --filter event=kill)" ]; then
    left=$settling_s
    while [ "$left" -gt 0 ] && running "$name"; do
        left=$((left - 1))
        sleep 1
    done
fi
tries=0
until running "$name"; do
    if docker start "$name" >/dev/null; then
        echo "started $name"
    else
        tries=$((tries + 1))
        [ "$tries" -le 10 ] || exit 1
        sleep 1
    fi
done
