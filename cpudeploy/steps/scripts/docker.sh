# What scripts about the engine share. Nothing here is done by itself.

answers() { timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

# Since when (seconds since the epoch): the engine's own last words about its settings or its start.
last_words() {
    journalctl -u docker --since "@$1" -o cat --no-pager 2>/dev/null |
        sed -n 's/^time=.* level=\(error\|fatal\) msg="\(.*\)".*/\2/p; s/^\(failed to start daemon\|unable to configure\)/\1/p' |
        tail -n 3
}

# The engine reads its settings again and says so in an event. One that refuses them keeps the old ones.
reload_engine() {
    since=$(date +%s.%N)
    if [ -d /run/systemd/system ]; then systemctl reload docker
    else kill -HUP "$(cat /var/run/docker.pid)"
    fi
    waited=0
    until [ -n "$(timeout 10 docker events --since "$since" --until "$(date +%s.%N)" --filter type=daemon \
        --filter event=reload --format reloaded 2>/dev/null)" ]; do
        waited=$((waited + 1))
        words=$(last_words "${since%.*}")
        # Errors about other things are in its log, too: those are waited out.
        case $words in *onfigur*) [ "$waited" -lt 4 ] || waited=40 ;; esac
        if [ "$waited" -ge 40 ]; then
            echo "the engine refused to reload: ${words:-it gives no reason}" >&2
            return 1
        fi
        sleep 0.5
    done
}

# Restarts the engine and waits until it answers.
restart_engine() {
    began=$(date +%s)
    if [ -d /run/systemd/system ]; then
        # Three starts a minute are allowed: earlier ones must not make this one fail.
        systemctl reset-failed docker.service docker.socket 2>/dev/null || true
        systemctl restart docker >/dev/null 2>&1 || true
    else service docker restart || true
    fi
    waited=0
    until answers; do
        waited=$((waited + 1))
        if [ "$waited" -ge 60 ] || { [ "$waited" -ge 5 ] && systemctl is-failed --quiet docker 2>/dev/null; }; then
            echo "the engine does not start:" >&2
            last_words "$began" >&2
            return 1
        fi
        sleep 1
    done
}
