# From the controller, through standard input. Behind `weights.sh`.
# Standard output also tells `begin BYTES`: what comes after so many of the file is awaited, no byte more.

begin
echo "begin $have" || exit 1
receive() {
    # By length: our standard input stays open for as long as anybody reads what we tell.
    sh -c 'echo $$ >"$1/source"; exec head -c "$2"' sh "$work" $((size - have))
}
bring receive
finish
