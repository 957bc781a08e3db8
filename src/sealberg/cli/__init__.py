"""The `sealberg` command: arguments in, words and exit codes out. One file per command, no logic.

main       the command itself: finds the others when they are named, turns errors into one line and a hint
console    what commands share when they talk: sizes, progress, JSON
inspect    what a file is, by its bytes
open       the plaintext of one sealed file
keystore   the local keystore
kms        try a key management service
trust      accept metadata that another tool wrote
spark_conf the options that spark-submit needs
"""
