# From the controller, through standard input. Behind `weights.sh`.
# Standard output also tells `begin BYTES`: what comes after so many of the file is awaited, no byte more.

begin
exec 4>&1
receive() {
    # Not before: hashing what is there may take minutes, in which nobody would read what is sent.
    echo "begin $have" >&4
    # By length: our standard input stays open for as long as anybody reads what we tell.
    sh -c 'echo $$ >"$1/source"; exec head -c "$2" 4>&-' sh "$work" $((size - have))
}
bring receive
finish
