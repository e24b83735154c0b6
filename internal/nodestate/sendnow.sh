# Sends the state of a node that runs: state-send.sh ID
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C

say() { echo "Pando state: $*"; }
